#include "engine/models/encoding_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "engine/checkpoint/json_file.h"
#include "engine/models/config_fields.h"
#include "kernels/status.h"

namespace beamline {
namespace {

struct PoolingMode {
  const char* field;  // of files before sentence-transformers 5.2
  const char* value;  // of pooling_mode
  Pooling pooling;
};

constexpr std::array<PoolingMode, 5> kPoolingModes = {{
    {"pooling_mode_cls_token", "cls", Pooling::kCls},
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_max_tokens", "max", Pooling::kMax},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::kMeanSqrtLength},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
}};

constexpr char kUnsupportedMode[] = "pooling_mode_weightedmean_tokens";

// The object in `file` of the folder; empty when there is no such file.
absl::StatusOr<nlohmann::json> ReadOptional(const Checkpoint& checkpoint, std::string_view file) {
  auto object = ReadJsonObject(fmt::format("{}/{}", checkpoint.folder(), file));
  if (absl::IsNotFound(object.status())) return nlohmann::json::object();
  return object;
}

absl::Status ReadPooling(const Checkpoint& checkpoint, const std::string& folder,
                         const StackSpec& encoder, EncodingDefaults& defaults) {
  const std::string file = fmt::format("{}/config.json", folder);
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object,
                            ReadJsonObject(fmt::format("{}/{}", checkpoint.folder(), file)));
  ConfigFields fields(object, file);
  fields.RequireBool("include_prompt", true, true);
  fields.RequireBool(kUnsupportedMode, false, false);
  if (fields.Int("word_embedding_dimension", 1, 1 << 20, encoder.hidden_size) !=
      encoder.hidden_size) {
    fields.Fault("word_embedding_dimension",
                 fmt::format("hidden_size {} is expected", encoder.hidden_size));
  }
  const std::string named = fields.String("pooling_mode", "");
  int num_modes = 0;
  for (const PoolingMode& mode : kPoolingModes) {
    if (!fields.Bool(mode.field, false) && named != mode.value) continue;
    defaults.pooling = mode.pooling;
    ++num_modes;
  }
  if (num_modes != 1) {
    fields.Fault("pooling_mode",
                 "one of cls, mean, max, mean_sqrt_len_tokens and lasttoken is "
                 "supported at a time");
  }
  return fields.status();
}

// A folder name of modules.json.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string_view::npos;
}

absl::Status ReadModules(const Checkpoint& checkpoint, const StackSpec& encoder,
                         EncodingDefaults& defaults) {
  const std::string path = checkpoint.folder() + "/modules.json";
  auto read = ReadJson(path);
  if (absl::IsNotFound(read.status())) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json modules, std::move(read));
  if (!modules.is_array()) return absl::InvalidArgumentError(path + ": an array is expected");
  for (const nlohmann::json& module : modules) {
    if (!module.is_object()) {
      return absl::InvalidArgumentError(path + ": its entries must be objects");
    }
    ConfigFields fields(module, "modules.json");
    const std::string type = fields.String("type", "");
    const std::string folder = fields.String("path", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer") {
      if (!folder.empty()) fields.Fault("path", "the model is expected in the folder itself");
    } else if (kind == "Pooling") {
      if (!IsPlainName(folder)) {
        fields.Fault("path", "the name of a folder is expected");
      } else {
        BEAMLINE_RETURN_IF_ERROR(ReadPooling(checkpoint, folder, encoder, defaults));
      }
    } else if (kind == "Normalize") {
      defaults.normalize = true;
    } else {
      fields.Fault("type", "supported are Transformer, Pooling and Normalize");
    }
    BEAMLINE_RETURN_IF_ERROR(fields.status());
  }
  return absl::OkStatus();
}

absl::Status ReadPrompts(const Checkpoint& checkpoint, EncodingDefaults& defaults) {
  constexpr char kFile[] = "config_sentence_transformers.json";
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadOptional(checkpoint, kFile));
  ConfigFields fields(object, kFile);
  if (fields.Has("prompts")) {
    const nlohmann::json& prompts = object["prompts"];
    if (!prompts.is_object()) {
      fields.Fault("prompts", "an object of strings is expected");
      return fields.status();
    }
    for (const auto& [name, text] : prompts.items()) {
      if (!text.is_string()) fields.Fault("prompts", "an object of strings is expected");
      BEAMLINE_RETURN_IF_ERROR(fields.status());
      defaults.prompts.emplace_back(name, text.get<std::string>());
    }
  }
  defaults.default_prompt_name = fields.String("default_prompt_name", "");
  const bool known =
      defaults.default_prompt_name.empty() ||
      std::any_of(defaults.prompts.begin(), defaults.prompts.end(),
                  [&](const auto& prompt) { return prompt.first == defaults.default_prompt_name; });
  if (!known) fields.Fault("default_prompt_name", "it is not one of prompts");
  return fields.status();
}

}  // namespace

absl::StatusOr<EncodingDefaults> ReadEncodingDefaults(const Checkpoint& checkpoint,
                                                      const StackSpec& encoder) {
  EncodingDefaults defaults;
  BEAMLINE_RETURN_IF_ERROR(ReadModules(checkpoint, encoder, defaults));
  constexpr char kTransformerFile[] = "sentence_bert_config.json";
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object,
                            ReadOptional(checkpoint, kTransformerFile));
  ConfigFields fields(object, kTransformerFile);
  defaults.max_input_tokens =
      std::min(encoder.max_positions, fields.Size("max_seq_length", encoder.max_positions));
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  BEAMLINE_RETURN_IF_ERROR(ReadPrompts(checkpoint, defaults));
  return defaults;
}

}  // namespace beamline
