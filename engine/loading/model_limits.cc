#include "engine/loading/model_limits.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/encoding/mask_head.h"
#include "engine/loading/cache_size.h"
#include "engine/loading/host_heads.h"
#include "engine/loading/make_limits.h"
#include "engine/scheduling/encode_step_builder.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// What a plan has to know of the device.
struct PlannedDevice {
  DType activation_dtype = DType::kFloat32;
  DType cache_dtype = DType::kFloat32;
  bool is_gpu = false;
  std::optional<size_t> free_bytes = std::nullopt;  // of a GPU
};

// REQUIRES: the model has its backend.
PlannedDevice DeviceOf(const LoadedModel& model) {
  const Precision& precision = model.types.precision;
  const std::optional<size_t> free_bytes = model.backend->FreeMemory();
  return {model.backend->ActivationDType(precision.compute), model.backend->CacheDType(precision),
          free_bytes.has_value(), free_bytes};
}

// Any GPU: activations are of the model's type there.
PlannedDevice SomeGpu(const LoadedModel& model) {
  const Precision& precision = model.types.precision;
  return {precision.compute, precision.cache.value_or(precision.compute), true};
}

StepLimits LimitsIn(const LoadedModel& model, const PlannedDevice& device, const CacheRoom& room) {
  const int32_t longest = MaxInputTokens(model.description, *model.tokenizer);
  StepLimits limits =
      MakeStepLimits(model.options, model.description, longest, device.cache_dtype, room);
  // A host takes its time over inputs that a step holds, too: EncodeLoop cuts them.
  if (!device.is_gpu && longest > EncodeStepBuilder::kLeastTokens &&
      ComputesInPieces(model.description.spec, model.options)) {
    limits.max_input_tokens = longest;
  }
  return limits;
}

MemoryPlan PlanThere(const LoadedModel& model, const PlannedDevice& device,
                     const Checkpoint& checkpoint, const StepLimits& limits) {
  const TransformerSpec& spec = model.description.spec;
  const ModelOptions& options = model.options;
  MemoryPlan plan = PlanMemory(spec, checkpoint, model.types, device.activation_dtype, limits,
                               options.tensor_parallel, options.pipeline_parallel);
  if (device.is_gpu) {
    plan.workspaces = WorkspaceBytes(spec, device.activation_dtype, limits, options.tensor_parallel,
                                     options.pipeline_parallel);
  } else if (FillsMasks(model)) {
    plan.weights +=
        MatrixBytes(checkpoint, MaskHeadTypes(model.types), MaskHead::TableName(*spec.mask_head));
  }
  return plan;
}

// What the cache may take.
CacheRoom RoomOf(const LoadedModel& model, const PlannedDevice& device,
                 const Checkpoint& checkpoint, const LoadContext& context) {
  const MemoryDemand demand = MemoryDemandOf(model.options, checkpoint, context.later_models);
  StepLimits limits = LimitsIn(model, device, CacheRoom());
  limits.num_blocks = 0;
  CacheRoom room = {.usual = DefaultCacheBytes(device.free_bytes, demand)};
  const MemoryPlan plan = PlanThere(model, device, checkpoint, limits);
  room.most = std::max(room.usual, MostCacheBytes(device.free_bytes, demand, plan));
  return room;
}

// A sequence that the cache cannot hold whole would never be answered: where the checkpoint's
// length is that of the sequences, it becomes what the cache holds.
absl::Status FitLength(const Checkpoint& checkpoint, const LoadContext& context,
                       const PlannedDevice& device, const CacheRoom& room, LoadedModel& model) {
  const ModelOptions& options = model.options;
  const std::optional<StackSpec>& decoder = model.description.spec.decoder;
  if (!decoder.has_value()) return absl::OkStatus();
  const int32_t length = LongestCached(options, model.description, device.cache_dtype, room);
  constexpr int32_t kLeast = 2;
  const int32_t positions = decoder->max_positions;
  if (length >= positions) return absl::OkStatus();
  if (options.max_model_len > 0 || length < kLeast || context.processes != nullptr) {
    if (options.cache_bytes == 0) return absl::OkStatus();  // CheckFits tells what is missing
    model.info.limit_notes.push_back(fmt::format(
        "the key/value cache is larger than cache_bytes ({}): it holds one request of {} tokens",
        options.cache_bytes, positions));
    return absl::OkStatus();
  }
  BEAMLINE_ASSIGN_OR_RETURN(model.description, DescribeModel(checkpoint, length));
  model.cached_len = length;
  model.info.limit_notes.push_back(fmt::format(
      "sequences have {} tokens at most, not the checkpoint's {}: the key/value cache holds no "
      "more; {}",
      length, positions,
      options.cache_bytes > 0 ? "raise cache_bytes"
                              : "set cache_bytes, or give it a device with more free memory"));
  return absl::OkStatus();
}

}  // namespace

int32_t MaxInputTokens(const ModelDescription& description, const Tokenizer& tokenizer) {
  const TransformerSpec& spec = description.spec;
  if (!spec.encoder.has_value()) return spec.decoder->max_positions - 1;
  const int32_t positions = spec.encoder->max_positions;
  if (spec.decoder.has_value()) return positions;
  int64_t tokens = description.encoding.max_input_tokens;
  if (tokens == 0) tokens = tokenizer.model_max_length();
  return tokens == 0 ? positions : static_cast<int32_t>(std::min<int64_t>(tokens, positions));
}

MemoryPlan PlanOf(const LoadedModel& model, const Checkpoint& checkpoint,
                  const StepLimits& limits) {
  return PlanThere(model, DeviceOf(model), checkpoint, limits);
}

absl::Status SetLimits(const Checkpoint& checkpoint, const LoadContext& context,
                       LoadedModel& model) {
  const PlannedDevice device = DeviceOf(model);
  // Looks at every tensor, of which a folder may have millions.
  CacheRoom room = RoomOf(model, device, checkpoint, context);
  BEAMLINE_RETURN_IF_ERROR(FitLength(checkpoint, context, device, room, model));
  if (model.cached_len > 0) room = RoomOf(model, device, checkpoint, context);
  model.limits = LimitsIn(model, device, room);
  for (std::string& note : LimitNotes(model.options, model.limits)) {
    model.info.limit_notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryPlan> PlanOnGpu(const Checkpoint& checkpoint, LoadedModel& model) {
  model.types = TypesOf(model.options, checkpoint, /*on_gpu=*/true);
  const PlannedDevice device = SomeGpu(model);
  const CacheRoom room;  // not looked at where the cache has a size
  BEAMLINE_RETURN_IF_ERROR(FitLength(checkpoint, {}, device, room, model));
  return PlanThere(model, device, checkpoint, LimitsIn(model, device, room));
}

}  // namespace beamline
