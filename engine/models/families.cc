#include "engine/models/families.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/checkpoint/checkpoint_file.h"
#include "engine/models/classifier_config.h"
#include "engine/models/rotary_config.h"
#include "fmt/format.h"

namespace beamline {

namespace {

bool ArchitectureEndsWith(const Checkpoint& checkpoint, std::string_view end) {
  const auto names = checkpoint.config().find("architectures");
  if (names == checkpoint.config().end() || !names->is_array() || names->empty()) return false;
  const nlohmann::json& first = names->front();
  return first.is_string() && first.get_ref<const std::string&>().ends_with(end);
}

}  // namespace

bool IsTokenClassifier(const Checkpoint& checkpoint) {
  return ArchitectureEndsWith(checkpoint, "ForTokenClassification");
}

bool IsClassifier(const Checkpoint& checkpoint) {
  return IsTokenClassifier(checkpoint) ||
         ArchitectureEndsWith(checkpoint, "ForSequenceClassification");
}

absl::Status RefuseOtherHeads(const Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.TensorNames()) {
    for (const char* head : {"classifier.", "qa_outputs.", "score."}) {
      if (!name.starts_with(head)) continue;
      const auto tensor = checkpoint.Find(name);
      return absl::UnimplementedError(
          fmt::format("{}: tensor \"{}\" is of a classifier or another task's head, which is not "
                      "served; served are encoders, and classifiers whose architectures name "
                      "ForSequenceClassification or ForTokenClassification",
                      tensor.ok() ? tensor->file : checkpoint.folder(), name));
    }
  }
  return absl::OkStatus();
}

void SetClassifier(const Checkpoint& checkpoint, const std::string& dense, Activation activation,
                   const std::string& output, ConfigFields& config, TransformerSpec& spec) {
  const auto linear = [](const std::string& name) {
    return name.empty() ? LinearNames() : LinearNames{{name + ".weight"}, {name + ".bias"}};
  };
  SetClassifierHead(checkpoint, linear(dense), activation, linear(output), config, spec);
}

void SetClassifierHead(const Checkpoint& checkpoint, LinearNames dense, Activation activation,
                       LinearNames output, ConfigFields& config, TransformerSpec& spec) {
  const std::vector<std::string> labels = ReadLabels(checkpoint.config(), config);
  ClassifierSpec& classifier = spec.classifier.emplace();
  classifier.dense = std::move(dense);
  classifier.activation = activation;
  classifier.output = std::move(output);
  classifier.num_labels = static_cast<int32_t>(labels.size());
  CheckTableRows(checkpoint, classifier.output.weights.front(),
                 config.Has("id2label") ? "id2label" : "num_labels", classifier.num_labels, config);
  for (const LinearNames* names : {&classifier.dense, &classifier.output}) {
    for (const auto* list : {&names->weights, &names->biases}) {
      spec.ignored_tensors.insert(spec.ignored_tensors.end(), list->begin(), list->end());
    }
  }
}

std::vector<std::string> LayerTypes(ConfigFields& config, int32_t num_layers) {
  std::vector<std::string> types = config.Strings("layer_types");
  if (!config.Has("layer_types")) return types;
  const auto is_known = [](const std::string& type) {
    return type == kFullAttention || type == kSlidingAttention;
  };
  if (types.size() != static_cast<size_t>(num_layers) || !std::ranges::all_of(types, is_known)) {
    config.Fault("layer_types", fmt::format("{} of \"{}\" and \"{}\" are expected", num_layers,
                                            kFullAttention, kSlidingAttention));
    types.clear();
  }
  return types;
}

void SetTokenClassifier(const Checkpoint& checkpoint, ConfigFields& config, TransformerSpec& spec) {
  SetClassifier(checkpoint, "", Activation::kNone, "classifier", config, spec);
  spec.classifier->per_token = true;
}

void SetMaskHead(const Checkpoint& checkpoint, const MaskHeadNames& names, Activation activation,
                 ConfigFields& config, TransformerSpec& spec) {
  const bool is_tied = config.Bool("tie_word_embeddings", true);
  const bool fills_masks = ArchitectureEndsWith(checkpoint, "ForMaskedLM") ||
                           ArchitectureEndsWith(checkpoint, "ForPreTraining");
  if (!fills_masks) return;
  // A file that cannot be opened is reported where it is read.
  const auto has_modules = HasFile(checkpoint.path() / "modules.json");
  if (!has_modules.ok() || *has_modules) return;
  const auto has = [&checkpoint](const std::string& name) { return checkpoint.Contains(name); };
  const std::string own = names.output + ".weight";
  const std::string own_bias = names.output + ".bias";
  const std::string bias = has(own_bias) ? own_bias : names.bias;
  const bool has_output = has(own) || is_tied || names.output.empty();
  if (!has(names.dense + ".weight") || !has_output) return;
  if (!names.biases_may_miss && !has(bias)) return;
  MaskHeadSpec& head = spec.mask_head.emplace();
  // Biases are used if the checkpoint has them, when they may be absent.
  const auto unless_missing = [&](const std::string& name) {
    return names.biases_may_miss && !has(name) ? std::string() : name;
  };
  const auto biases = [&](const std::string& name) {
    const std::string found = unless_missing(name);
    return found.empty() ? std::vector<std::string>() : std::vector<std::string>{found};
  };
  head.dense = {{names.dense + ".weight"}, {}};
  if (names.has_dense_bias) head.dense.biases = biases(names.dense + ".bias");
  head.activation = activation;
  // Checkpoints converted from TensorFlow use other names, as in the encoder.
  const bool is_tensorflow = has(names.norm + ".gamma");
  head.norm = {
      names.norm + (is_tensorflow ? ".gamma" : ".weight"),
      names.has_norm_bias ? unless_missing(names.norm + (is_tensorflow ? ".beta" : ".bias")) : ""};
  head.norm_epsilon = spec.encoder->norm_epsilon;
  head.output = {{has(own) ? own : spec.encoder->token_table}, {}};
  if (names.has_output_bias) head.output.biases = biases(bias);
}

void CheckTableRows(const Checkpoint& checkpoint, const std::string& table, std::string_view field,
                    int32_t rows, ConfigFields& config) {
  const auto tensor = checkpoint.Find(table);
  if (!tensor.ok() || tensor->shape.size() != 2 || tensor->shape[0] == rows) return;
  config.Fault(field,
               fmt::format("{} is expected, the rows of tensor \"{}\"", tensor->shape[0], table));
}

}  // namespace beamline
