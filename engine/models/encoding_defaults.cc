#include "engine/models/encoding_defaults.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/models/config_fields.h"
#include "engine/models/transformer_module.h"
#include "fmt/format.h"

namespace beamline {
namespace {

struct PoolingMode {
  const char* field;               // in files before sentence-transformers 5.2
  const char* value;               // value of pooling_mode
  std::optional<Pooling> pooling;  // absent: not supported
};

constexpr std::array<PoolingMode, 6> kPoolingModes = {{
    {"pooling_mode_cls_token", "cls", Pooling::kCls},
    {"pooling_mode_max_tokens", "max", Pooling::kMax},
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::kMeanSqrtLength},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
}};

constexpr char kSupportedModes[] =
    "one of cls, mean, max, mean_sqrt_len_tokens and lasttoken is supported at a time";

// The single mode of a pooling module; absent after a fault.
std::optional<Pooling> ReadPoolingMode(const nlohmann::json& object, ConfigFields& fields) {
  const PoolingMode* chosen = nullptr;
  const char* field = "pooling_mode";
  if (fields.Has(field)) {  // the older fields are ignored then
    const nlohmann::json& value = object["pooling_mode"];
    const nlohmann::json& mode = value.is_array() && value.size() == 1 ? value[0] : value;
    for (const PoolingMode& known : kPoolingModes) {
      if (mode == known.value) chosen = &known;
    }
  } else {
    int num_modes = 0;
    for (const PoolingMode& known : kPoolingModes) {
      if (!fields.Bool(known.field, false)) continue;
      chosen = &known;
      field = known.field;
      ++num_modes;
    }
    if (num_modes == 0) return Pooling::kMean;
    if (num_modes > 1) chosen = nullptr;
  }
  if (chosen != nullptr && chosen->pooling.has_value()) return chosen->pooling;
  fields.Fault(field, kSupportedModes);
  return std::nullopt;
}

absl::Status ReadPooling(const Checkpoint& checkpoint, const std::string& folder,
                         const StackSpec& encoder, EncodingDefaults& defaults,
                         bool& include_prompt) {
  const std::string file = fmt::format("{}/config.json", folder);
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadJsonObject(checkpoint.path() / file));
  ConfigFields fields(object, file);
  fields.RequireKnown({"word_embedding_dimension", "embedding_dimension", "pooling_mode",
                       "include_prompt", kPoolingModes[0].field, kPoolingModes[1].field,
                       kPoolingModes[2].field, kPoolingModes[3].field, kPoolingModes[4].field,
                       kPoolingModes[5].field});
  include_prompt = fields.Bool("include_prompt", true);
  for (const char* field : {"word_embedding_dimension", "embedding_dimension"}) {
    if (fields.Size(field, encoder.hidden_size) == encoder.hidden_size) continue;
    fields.Fault(field, fmt::format("hidden_size {} is expected", encoder.hidden_size));
  }
  defaults.pooling = ReadPoolingMode(object, fields).value_or(Pooling::kMean);
  return fields.status();
}

// Whether `name` is a plain folder name.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string_view::npos;
}

// A Normalize module may name another vector than the pooled one, which is not supported.
absl::Status CheckNormalize(const Checkpoint& checkpoint, const std::string& folder) {
  const std::string file = fmt::format("{}/config.json", folder);
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadOptionalObject(checkpoint, file));
  ConfigFields fields(object, file);
  fields.RequireString("module_input_name", "sentence_embedding", "sentence_embedding");
  fields.RequireString("module_output_name", "sentence_embedding", "sentence_embedding");
  return fields.status();
}

constexpr std::array<std::pair<std::string_view, Activation>, 5> kDenseActivations = {{
    {"torch.nn.modules.activation.Tanh", Activation::kTanh},
    {"torch.nn.modules.linear.Identity", Activation::kNone},
    {"torch.nn.modules.activation.ReLU", Activation::kRelu},
    {"torch.nn.modules.activation.GELU", Activation::kGelu},
    {"torch.nn.modules.activation.SiLU", Activation::kSilu},
}};

// Reads a Dense module whose input vectors have `in_size` elements.
absl::StatusOr<DenseSpec> ReadDense(const Checkpoint& checkpoint, const std::string& folder,
                                    int32_t in_size) {
  const std::string file = fmt::format("{}/config.json", folder);
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadJsonObject(checkpoint.path() / file));
  ConfigFields fields(object, file);
  fields.RequireKnown({"in_features", "out_features", "bias", "activation_function",
                       "module_input_name", "module_output_name"});
  fields.RequireString("module_input_name", "sentence_embedding", "sentence_embedding");
  fields.RequireString("module_output_name", "sentence_embedding", "sentence_embedding");
  DenseSpec dense;
  dense.folder = folder;
  dense.in_size = fields.Size("in_features");
  dense.out_size = fields.Size("out_features");
  dense.biased = fields.Bool("bias", true);
  if (fields.status().ok() && dense.in_size != in_size) {
    fields.Fault("in_features", fmt::format("{} is expected, the size of the vectors", in_size));
  }
  const std::string name =
      fields.String("activation_function", std::string(kDenseActivations[0].first));
  const auto known =
      std::ranges::find(kDenseActivations, name, &std::pair<std::string_view, Activation>::first);
  if (known == kDenseActivations.end()) {
    fields.Fault("activation_function",
                 "Tanh, ReLU, GELU, SiLU and Identity of torch.nn.modules "
                 "are supported");
  } else {
    dense.activation = known->second;
  }
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  return dense;
}

// Reads modules.json: Transformer, Pooling, any number of Dense modules, and optionally Normalize.
// Modules run in the order of the file.
class ModuleReader {
 public:
  ModuleReader(const Checkpoint& checkpoint, const StackSpec& encoder, EncodingDefaults& defaults)
      : checkpoint_(checkpoint), encoder_(encoder), defaults_(defaults) {}

  absl::Status Read(const nlohmann::json& modules, const std::string& path) {
    if (!modules.is_array()) return absl::InvalidArgumentError(path + ": an array is expected");
    for (const nlohmann::json& module : modules) {
      if (!module.is_object()) {
        return absl::InvalidArgumentError(path + ": its entries must be objects");
      }
      BEAMLINE_RETURN_IF_ERROR(ReadModule(module));
    }
    if (num_poolings_ == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        path +
        ": no module is of type sentence_transformers.models.Pooling, so that no vector "
        "stands for a text");
  }

  // Whether the pooling module also pools the tokens of a prompt.
  bool include_prompt() const { return include_prompt_; }

 private:
  absl::Status ReadModule(const nlohmann::json& module) {
    ConfigFields fields(module, "modules.json");
    const std::string type = fields.String("type", "");
    const std::string folder = fields.String("path", "");
    if (fields.Has("name") && !names_.insert(fields.String("name", "")).second) {
      fields.Fault("name", "another module has it, which this one would replace");
    }
    if (!folder.empty() && !IsPlainName(folder)) {
      fields.Fault("path", "the name of a folder is expected");
    }
    BEAMLINE_RETURN_IF_ERROR(fields.status());
    // A class of the same name in another package is a different module.
    const bool own = type.starts_with("sentence_transformers.");
    const std::string kind = own ? type.substr(type.rfind('.') + 1) : "";
    if (kind == "Transformer") {
      if (num_transformers_++ > 0) fields.Fault("type", "one Transformer is supported");
      if (!folder.empty()) fields.Fault("path", "the model is expected in the folder itself");
    } else if (kind == "Pooling") {
      if (num_transformers_ == 0 || num_poolings_++ > 0) {
        fields.Fault("type", "one Pooling, behind the Transformer, is supported");
      } else if (folder.empty()) {
        fields.Fault("path", "the name of a folder is expected");
      } else {
        BEAMLINE_RETURN_IF_ERROR(
            ReadPooling(checkpoint_, folder, encoder_, defaults_, include_prompt_));
      }
    } else if (kind == "Dense") {
      if (num_poolings_ == 0 || defaults_.normalize) {
        fields.Fault("type", "it is supported between Pooling and Normalize only");
      } else if (folder.empty()) {
        fields.Fault("path", "the name of a folder is expected");
      } else {
        BEAMLINE_ASSIGN_OR_RETURN(
            DenseSpec dense,
            ReadDense(checkpoint_, folder, defaults_.vector_size(encoder_.hidden_size)));
        defaults_.dense.push_back(std::move(dense));
      }
    } else if (kind == "Normalize") {
      if (num_poolings_ == 0) fields.Fault("type", "it is supported behind Pooling only");
      if (!folder.empty()) BEAMLINE_RETURN_IF_ERROR(CheckNormalize(checkpoint_, folder));
      defaults_.normalize = true;
    } else if (kind != "Dropout") {  // active only in training
      fields.Fault("type",
                   "supported are Transformer, Pooling, Dense, Normalize and Dropout of "
                   "sentence_transformers.models");
    }
    return fields.status();
  }

  const Checkpoint& checkpoint_;
  const StackSpec& encoder_;
  EncodingDefaults& defaults_;
  std::set<std::string> names_;
  int num_transformers_ = 0;
  int num_poolings_ = 0;
  bool include_prompt_ = true;
};

absl::Status ReadPrompts(const Checkpoint& checkpoint, const StackSpec& encoder,
                         bool include_prompt, EncodingDefaults& defaults) {
  constexpr char kFile[] = "config_sentence_transformers.json";
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadOptionalObject(checkpoint, kFile));
  ConfigFields fields(object, kFile);
  fields.RequireString("model_type", "SentenceTransformer", "SentenceTransformer");
  const int32_t vector_size = defaults.vector_size(encoder.hidden_size);
  const int32_t dimensions = fields.Size("truncate_dim", vector_size);
  if (dimensions < vector_size) defaults.dimensions = dimensions;
  const nlohmann::json prompts =
      fields.Has("prompts") ? object["prompts"] : nlohmann::json::object();
  if (!prompts.is_object()) fields.Fault("prompts", "an object of strings is expected");
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  for (const auto& [name, text] : prompts.items()) {
    if (!text.is_string() && !text.is_null()) {
      fields.Fault("prompts", "an object of strings is expected");
      return fields.status();
    }
    defaults.prompts.emplace_back(name, text.is_null() ? "" : text.get<std::string>());
    if (!include_prompt && !defaults.prompts.back().second.empty()) {
      fields.Fault("prompts",
                   "include_prompt of the pooling module is false: prompts that are not "
                   "pooled are not supported");
    }
  }
  if (!fields.Has("default_prompt_name")) return fields.status();
  defaults.default_prompt_name = fields.String("default_prompt_name", "");
  // Every model has these two prompts; they are empty if the file does not set them.
  std::set<std::string_view> names = {"query", "document"};
  for (const auto& [name, text] : defaults.prompts) names.insert(name);
  if (!names.contains(defaults.default_prompt_name) || defaults.default_prompt_name.empty()) {
    fields.Fault("default_prompt_name", "it is not one of prompts");
  }
  return fields.status();
}

}  // namespace

bool HasModules(const Checkpoint& checkpoint) {
  return !absl::IsNotFound(ReadJson(checkpoint.path() / "modules.json").status());
}

absl::StatusOr<EncodingDefaults> ReadEncodingDefaults(const Checkpoint& checkpoint,
                                                      const StackSpec& encoder) {
  EncodingDefaults defaults;
  const CheckpointPath path = checkpoint.path() / "modules.json";
  auto read = ReadJson(path);
  if (absl::IsNotFound(read.status())) return defaults;
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json modules, std::move(read));
  ModuleReader reader(checkpoint, encoder, defaults);
  BEAMLINE_RETURN_IF_ERROR(reader.Read(modules, path.string()));
  BEAMLINE_RETURN_IF_ERROR(ReadTransformerModule(checkpoint, kFeatureExtraction, defaults));
  BEAMLINE_RETURN_IF_ERROR(ReadPrompts(checkpoint, encoder, reader.include_prompt(), defaults));
  return defaults;
}

}  // namespace beamline
