#include "engine/models/transformer_module.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/models/config_fields.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The first of these that exists and is not empty is used.
constexpr const char* kFiles[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
};

// Settings passed on to transformers, by their names before and since version 5.
constexpr std::pair<const char*, const char*> kModelArguments = {"model_args", "model_kwargs"};
constexpr std::pair<const char*, const char*> kConfigArguments = {"config_args", "config_kwargs"};
constexpr std::pair<const char*, const char*> kTokenizerArguments = {"tokenizer_args",
                                                                     "processor_kwargs"};

// An object in a field that may be absent; empty after a fault.
nlohmann::json ObjectField(const nlohmann::json& object, const char* name, ConfigFields& fields) {
  if (!fields.Has(name)) return nlohmann::json::object();
  if (object[name].is_object()) return object[name];
  fields.Fault(name, "an object is expected");
  return nlohmann::json::object();
}

// sentence-transformers truncates texts at the end by default.
void RequireTruncation(const nlohmann::json& arguments, ConfigFields& fields) {
  if (!fields.Has("truncation")) return;
  const nlohmann::json& value = arguments["truncation"];
  if (value.is_boolean() && value.get<bool>()) return;
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  if (name == "longest_first" || name == "only_first") return;
  fields.Fault("truncation", "only true is supported");
}

class TransformerModuleReader {
 public:
  TransformerModuleReader(const nlohmann::json& object, const std::string& file,
                          const ModuleTask& task, EncodingDefaults& defaults)
      : object_(object), file_(file), task_(task), defaults_(defaults), fields_(object, file) {}

  absl::Status Read() {
    fields_.RequireKnown({"max_seq_length", "do_lower_case", "transformer_task",
                          "module_output_name", "modality_config", "processing_kwargs",
                          "unpad_inputs", "backend", kModelArguments.first, kModelArguments.second,
                          kConfigArguments.first, kConfigArguments.second,
                          kTokenizerArguments.first, kTokenizerArguments.second});
    fields_.RequireString("transformer_task", task_.name, task_.name);
    fields_.RequireString("module_output_name", task_.output, task_.output);
    defaults_.lower_case = fields_.Bool("do_lower_case", false);
    defaults_.max_input_tokens = fields_.Size("max_seq_length", 0);
    BEAMLINE_RETURN_IF_ERROR(fields_.status());
    BEAMLINE_RETURN_IF_ERROR(
        ReadArguments(kModelArguments, {"trust_remote_code", "attn_implementation"}));
    BEAMLINE_RETURN_IF_ERROR(ReadArguments(kConfigArguments, {"trust_remote_code"}));
    BEAMLINE_RETURN_IF_ERROR(
        ReadArguments(kTokenizerArguments, {"trust_remote_code", "use_fast", "model_max_length"}));
    BEAMLINE_RETURN_IF_ERROR(ReadModalities());
    return ReadProcessing();
  }

 private:
  // Arguments for transformers other than `known` are faults. Those of the tokenizer may set the
  // longest input, with lower precedence than max_seq_length.
  absl::Status ReadArguments(std::pair<const char*, const char*> names,
                             std::initializer_list<std::string_view> known) {
    const char* name = fields_.Has(names.first) ? names.first : names.second;
    const nlohmann::json arguments = ObjectField(object_, name, fields_);
    BEAMLINE_RETURN_IF_ERROR(fields_.status());
    ConfigFields nested(arguments, fmt::format("{}: {}", file_, name));
    nested.RequireKnown(known);
    defaults_.max_input_tokens = nested.Size("model_max_length", defaults_.max_input_tokens);
    return nested.status();
  }

  // Only the task's output of a text is supported: no chat template and no other output.
  absl::Status ReadModalities() {
    if (!fields_.Has("modality_config")) return absl::OkStatus();
    const nlohmann::json modalities = ObjectField(object_, "modality_config", fields_);
    const nlohmann::json supported = {{"method", "forward"},
                                      {"method_output_name", task_.model_output}};
    if (modalities.contains("message") || modalities.value("text", nlohmann::json()) != supported) {
      fields_.Fault("modality_config",
                    fmt::format("supported is {}", nlohmann::json{{"text", supported}}.dump()));
    }
    return fields_.status();
  }

  // Reads how the tokenizer is called. Padding is ignored, because Beamline does not pad.
  absl::Status ReadProcessing() {
    const nlohmann::json modalities = ObjectField(object_, "processing_kwargs", fields_);
    BEAMLINE_RETURN_IF_ERROR(fields_.status());
    ConfigFields groups(modalities, fmt::format("{}: processing_kwargs", file_));
    groups.RequireKnown({"text", "common", "image", "audio", "video"});
    for (const char* group : {"text", "common"}) {  // the later one wins
      const nlohmann::json arguments = ObjectField(modalities, group, groups);
      BEAMLINE_RETURN_IF_ERROR(groups.status());
      ConfigFields nested(arguments, fmt::format("{}: processing_kwargs: {}", file_, group));
      nested.RequireKnown({"max_length", "padding", "truncation", "return_tensors"});
      RequireTruncation(arguments, nested);
      defaults_.max_input_tokens = nested.Size("max_length", defaults_.max_input_tokens);
      BEAMLINE_RETURN_IF_ERROR(nested.status());
    }
    return groups.status();
  }

  const nlohmann::json& object_;
  const std::string& file_;
  const ModuleTask& task_;
  EncodingDefaults& defaults_;
  ConfigFields fields_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ReadOptionalObject(const Checkpoint& checkpoint,
                                                  std::string_view file) {
  auto object = ReadJsonObject(checkpoint.path() / file);
  if (absl::IsNotFound(object.status())) return nlohmann::json::object();
  return object;
}

absl::Status ReadTransformerModule(const Checkpoint& checkpoint, const ModuleTask& task,
                                   EncodingDefaults& defaults) {
  for (const char* file : kFiles) {
    BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json object, ReadOptionalObject(checkpoint, file));
    if (object.empty()) continue;
    const std::string name = file;
    return TransformerModuleReader(object, name, task, defaults).Read();
  }
  return absl::OkStatus();
}

}  // namespace beamline
