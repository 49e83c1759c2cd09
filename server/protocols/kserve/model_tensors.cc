#include "server/protocols/kserve/model_tensors.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/field_error.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/protocols/kserve/options.h"

namespace beamline {
namespace {

constexpr int32_t kLastVersion = 1 << 30;
constexpr char kPlatform[] = "beamline";

struct TensorForm {
  std::string_view name;
  inference::DataType type;
  std::vector<int64_t> shape;
};

bool Generates(const ModelInfo& model) { return beamline::Generates(model.task); }
bool Classifies(const ModelInfo& model) { return beamline::Classifies(model.task); }

std::vector<TensorForm> Inputs(const ModelInfo& model) {
  std::vector<TensorForm> inputs;
  if (Classifies(model)) return inputs;  // ModelInfer does not accept classifiers
  if (Generates(model)) {
    inputs = {{kTextInput, inference::TYPE_STRING, {1}},
              {kIdInput, inference::TYPE_INT32, {-1}},
              {kLengthInput, inference::TYPE_INT32, {1}},
              {kJsonInput, inference::TYPE_STRING, {1}}};
  } else {
    inputs = {{kTextInput, inference::TYPE_STRING, {-1}},
              {kIdInput, inference::TYPE_INT32, {-1, -1}},
              {kLengthInput, inference::TYPE_INT32, {-1}}};
  }
  for (const InputDescription& option : OptionInputs(Generates(model))) {
    inputs.push_back({option.name, option.type, {option.size}});
  }
  return inputs;
}

std::vector<TensorForm> Outputs(const ModelInfo& model) {
  if (Classifies(model)) return {};
  if (!Generates(model)) {
    return {{kEmbeddingOutput, inference::TYPE_FP32, {-1, model.embedding_dimensions}},
            {"num_input_tokens", inference::TYPE_UINT32, {-1}}};
  }
  return {{kTextOutput, inference::TYPE_STRING, {-1}},
          {"output_ids", inference::TYPE_INT32, {-1, -1}},
          {"sequence_length", inference::TYPE_INT32, {-1}},
          {"sequence_index", inference::TYPE_INT32, {-1}},
          {"finish_reason", inference::TYPE_STRING, {-1}},
          {"cum_log_probs", inference::TYPE_FP32, {-1}},
          {"cumulative_logprob", inference::TYPE_FP32, {-1}},
          {"output_log_probs", inference::TYPE_FP32, {-1, -1}},
          {"num_input_tokens", inference::TYPE_UINT32, {1}},
          {"num_output_tokens", inference::TYPE_UINT32, {1}}};
}

// "BYTES" for TYPE_STRING, else the name after "TYPE_".
std::string DatatypeName(inference::DataType type) {
  if (type == inference::TYPE_STRING) return "BYTES";
  return inference::DataType_Name(type).substr(std::string_view("TYPE_").size());
}

void SetDuration(const ModelTotals::Sum& sum, inference::StatisticDuration& duration) {
  duration.set_count(sum.count);
  duration.set_ns(sum.ns);
}

}  // namespace

absl::StatusOr<std::string> VersionedName(std::string_view field, const std::string& name,
                                          const std::string& version) {
  if (version.empty()) return name;
  int32_t number = 0;
  if (!absl::SimpleAtoi(version, &number) || number < 1 || number > kLastVersion) {
    return FieldError(field, fmt::format("'{}'", Shorten(version)),
                      fmt::format("1 to {}, or nothing", kLastVersion));
  }
  return fmt::format("{}{}{}", name, kVersionSeparator, number);
}

bool HasOutput(const ModelInfo& model, std::string_view name) {
  return std::ranges::any_of(Outputs(model),
                             [name](const TensorForm& t) { return t.name == name; });
}

std::string OutputNames(const ModelInfo& model) {
  std::string names;
  for (const TensorForm& output : Outputs(model)) {
    names += (names.empty() ? "" : ", ") + std::string(output.name);
  }
  return names;
}

bool CanAnswer(const ModelInfo& model) {
  return model.state == ModelState::kReady &&
         std::ranges::any_of(model.replicas, [](const ReplicaInfo& replica) {
           return replica.phase == ReplicaPhase::kUp;
         });
}

inference::ModelMetadataResponse ToMetadata(const ModelInfo& model) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(model.name);
  metadata.set_platform(kPlatform);
  const auto set = [](const TensorForm& tensor, auto& out) {
    out.set_name(std::string(tensor.name));
    out.set_datatype(DatatypeName(tensor.type));
    for (const int64_t size : tensor.shape) out.add_shape(size);
  };
  for (const TensorForm& input : Inputs(model)) set(input, *metadata.add_inputs());
  for (const TensorForm& output : Outputs(model)) set(output, *metadata.add_outputs());
  return metadata;
}

inference::ModelConfig ToConfig(const ModelInfo& model) {
  inference::ModelConfig config;
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  for (const TensorForm& tensor : Inputs(model)) {
    auto& input = *config.add_input();
    input.set_name(std::string(tensor.name));
    input.set_data_type(tensor.type);
    for (const int64_t size : tensor.shape) input.add_dims(size);
    input.set_optional(true);  // one of the text inputs is required
  }
  for (const TensorForm& tensor : Outputs(model)) {
    auto& output = *config.add_output();
    output.set_name(std::string(tensor.name));
    output.set_data_type(tensor.type);
    for (const int64_t size : tensor.shape) output.add_dims(size);
  }
  auto& group = *config.add_instance_group();
  group.set_name(model.name);
  group.set_count(static_cast<int32_t>(model.replicas.size()));
  group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
  for (const ReplicaInfo& replica : model.replicas) {
    constexpr std::string_view kGpu = "cuda:";
    int32_t number = 0;
    if (!replica.device.starts_with(kGpu)) continue;
    group.set_kind(inference::ModelInstanceGroup::KIND_GPU);
    if (absl::SimpleAtoi(replica.device.substr(kGpu.size()), &number)) group.add_gpus(number);
  }
  config.mutable_model_transaction_policy()->set_decoupled(Generates(model));
  const auto put = [&](const char* name, const std::string& value) {
    (*config.mutable_parameters())[name].set_string_value(value);
  };
  put("architecture", model.architecture);
  put("task", model.task == ModelTask::kEncode           ? "encode"
              : model.task == ModelTask::kClassify       ? "classify"
              : model.task == ModelTask::kClassifyTokens ? "classify_tokens"
              : model.task == ModelTask::kTranslate      ? "translate"
                                                         : "generate");
  put("max_input_tokens", fmt::to_string(model.max_input_tokens));
  if (Generates(model)) put("max_total_tokens", fmt::to_string(model.max_total_tokens));
  return config;
}

inference::ModelStatistics ToStatistics(const ModelInfo& model, const ModelTotals& totals) {
  inference::ModelStatistics statistics;
  statistics.set_name(model.name);
  statistics.set_version(fmt::to_string(model.version));
  statistics.set_last_inference(totals.last_ms);
  statistics.set_inference_count(totals.success.count);
  statistics.set_execution_count(totals.steps);
  auto& sums = *statistics.mutable_inference_stats();
  SetDuration(totals.success, *sums.mutable_success());
  SetDuration(totals.failure, *sums.mutable_fail());
  SetDuration(totals.queue, *sums.mutable_queue());
  SetDuration(totals.compute, *sums.mutable_compute_infer());
  // perf_analyzer's other phases of a request take no time here, but have the same count.
  SetDuration({totals.compute.count, 0}, *sums.mutable_compute_input());
  SetDuration({totals.compute.count, 0}, *sums.mutable_compute_output());
  return statistics;
}

inference::RepositoryIndexResponse::ModelIndex ToIndex(const ModelInfo& model) {
  inference::RepositoryIndexResponse::ModelIndex index;
  index.set_name(model.name);
  index.set_version(fmt::to_string(model.version));
  index.set_reason(model.error);
  switch (model.state) {
    case ModelState::kReady:
      index.set_state("READY");
      break;
    case ModelState::kLoading:
      index.set_state("LOADING");
      break;
    case ModelState::kDraining:
      index.set_state("UNLOADING");
      break;
    default:
      index.set_state("UNAVAILABLE");
  }
  return index;
}

}  // namespace beamline
