#include "engine/models/classifier_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/models/families.h"
#include "engine/models/transformer_module.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kConfig[] = "config.json";
// An answer has a number for each class of each input, and a request may have thousands of inputs.
constexpr int32_t kMostLabels = 8192;

// Maps a torch class to a function; accepts any full name that torch uses for it.
std::optional<ScoreFunction> FunctionOf(std::string_view name) {
  if (!name.starts_with("torch.nn.")) return std::nullopt;
  const std::string_view function = name.substr(name.rfind('.') + 1);
  if (function == "Sigmoid") return ScoreFunction::kSigmoid;
  if (function == "Identity") return ScoreFunction::kNone;
  return std::nullopt;
}

// Sets the function that `field` names; does nothing if the field is absent.
void ReadFunction(const char* field, ConfigFields& fields, std::optional<ScoreFunction>& function) {
  if (!fields.Has(field) || function.has_value()) return;
  function = FunctionOf(fields.String(field, ""));
  if (!function.has_value()) {
    fields.Fault(field, "supported are Sigmoid and Identity of torch.nn");
  }
}

ScoreFunction PipelineFunction(size_t num_labels, ConfigFields& config) {
  const std::string problem = config.String("problem_type", "");
  if (problem == "regression") return ScoreFunction::kNone;
  if (problem == "multi_label_classification") return ScoreFunction::kSigmoid;
  if (problem == "single_label_classification") {
    if (num_labels == 1) config.Fault("problem_type", "it has two classes at least");
  } else if (!problem.empty()) {
    config.Fault("problem_type",
                 "supported are regression, single_label_classification and "
                 "multi_label_classification");
  }
  return num_labels == 1 ? ScoreFunction::kSigmoid : ScoreFunction::kSoftmax;
}

// The modules.json of a cross-encoder may list only the model.
absl::Status CheckModules(const nlohmann::json& modules, const std::string& path) {
  if (!modules.is_array() || modules.empty() || !modules.front().is_object()) {
    return absl::InvalidArgumentError(path + ": an array of objects is expected");
  }
  ConfigFields fields(modules.front(), "modules.json");
  const std::string type = fields.String("type", "");
  if (!type.starts_with("sentence_transformers.") || !type.ends_with(".Transformer")) {
    fields.Fault("type", "a classifier's first module is Transformer of sentence_transformers");
  }
  if (!fields.String("path", "").empty()) {
    fields.Fault("path", "the model is expected in the folder itself");
  }
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  if (modules.size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      path + ": a classifier is one module, Transformer; those behind it are not supported");
}

absl::Status ReadCrossEncoder(const Checkpoint& checkpoint,
                              std::optional<ScoreFunction>& function) {
  constexpr char kFile[] = "config_sentence_transformers.json";
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadOptionalObject(checkpoint, kFile));
  ConfigFields fields(object, kFile);
  fields.RequireString("model_type", "CrossEncoder", "CrossEncoder");
  ReadFunction("activation_fn", fields, function);
  if (!fields.String("default_prompt_name", "").empty()) {
    fields.Fault("default_prompt_name", "a classifier's prompts are not supported");
  }
  return fields.status();
}

}  // namespace

std::vector<std::string> ReadLabels(const nlohmann::json& json, ConfigFields& config) {
  const bool has_names = config.Has("id2label");
  const std::optional<int32_t> given = config.OptionalInt("num_labels", 1, kMostLabels);
  std::vector<std::string> labels;
  if (!has_names) {
    for (int32_t id = 0; id < given.value_or(2); ++id)
      labels.push_back(fmt::format("LABEL_{}", id));
    return labels;
  }
  const nlohmann::json& names = json["id2label"];
  const size_t most = names.is_object() ? names.size() : 0;
  while (labels.size() < most) {
    const auto name = names.find(fmt::to_string(labels.size()));
    if (name == names.end() || !name->is_string()) break;
    labels.push_back(name->get<std::string>());
  }
  if (labels.empty() || labels.size() < most || labels.size() > kMostLabels) {
    config.Fault(
        "id2label",
        fmt::format("an object is expected of 1 to {} labels, those of \"0\", \"1\" and so "
                    "on, without a gap; \"{}\" is the first that is not",
                    kMostLabels, labels.size()));
  } else if (given.has_value() && static_cast<size_t>(*given) != labels.size()) {
    config.Fault("num_labels", fmt::format("{} is expected, as id2label has", labels.size()));
  }
  return labels;
}

absl::Status ReadClassifyDefaults(const Checkpoint& checkpoint, ClassifyDefaults& defaults,
                                  EncodingDefaults& encoding) {
  ConfigFields config(checkpoint.config(), kConfig);
  defaults.labels = ReadLabels(checkpoint.config(), config);
  if (IsTokenClassifier(checkpoint)) return config.status();  // its function is softmax
  defaults.function = PipelineFunction(defaults.labels.size(), config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  std::optional<ScoreFunction> function;
  const CheckpointPath path = checkpoint.path() / "modules.json";
  auto modules = ReadJson(path);
  if (modules.ok()) {
    BEAMLINE_RETURN_IF_ERROR(CheckModules(*modules, path.string()));
    BEAMLINE_RETURN_IF_ERROR(ReadTransformerModule(checkpoint, kSequenceClassification, encoding));
    BEAMLINE_RETURN_IF_ERROR(ReadCrossEncoder(checkpoint, function));
  } else if (!absl::IsNotFound(modules.status())) {
    return modules.status();
  }
  ConfigFields of_version_4 = config.Nested("sentence_transformers");
  ReadFunction("activation_fn", of_version_4, function);
  config.Include(of_version_4);
  ReadFunction("sbert_ce_default_activation_function", config, function);
  defaults.rank_function = function.value_or(defaults.labels.size() == 1 ? ScoreFunction::kSigmoid
                                                                         : ScoreFunction::kNone);
  return config.status();
}

}  // namespace beamline
