#include "engine/loading/model_precision.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/api/model_settings.h"
#include "fmt/format.h"

namespace beamline {
namespace {

std::optional<DType> TypeOf(std::string_view word, std::span<const DType> types) {
  for (const DType dtype : types) {
    if (word == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

// As config.json names it, "bfloat16" or "torch.bfloat16".
std::optional<DType> ConfiguredType(const nlohmann::json& config) {
  constexpr std::string_view kPrefix = "torch.";
  for (const char* const field : {"dtype", "torch_dtype"}) {
    const auto found = config.find(field);
    if (found == config.end() || !found->is_string()) continue;
    std::string_view word = found->get_ref<const std::string&>();
    if (word.starts_with(kPrefix)) word.remove_prefix(kPrefix.size());
    if (const auto type = TypeOf(word, kComputeTypes); type.has_value()) return type;
  }
  return std::nullopt;
}

bool IsOpen(const ModelOptions& options) {
  return !options.dtype.has_value() && (options.weights.empty() || options.compute.empty());
}

}  // namespace

DType StoredType(const Checkpoint& checkpoint) {
  std::map<DType, int64_t> elements;
  for (const std::string& name : checkpoint.TensorNames()) {
    const auto tensor = checkpoint.Find(name);
    if (!tensor.ok() || !TypeOf(Name(tensor->dtype), kComputeTypes).has_value()) continue;
    elements[tensor->dtype] += static_cast<int64_t>(tensor->size / SizeOf(tensor->dtype));
  }
  if (elements.empty()) return DType::kFloat32;
  return std::ranges::max_element(elements, {}, [](const auto& of) { return of.second; })->first;
}

DType OwnType(const Checkpoint& checkpoint) {
  const DType stored = StoredType(checkpoint);
  const DType configured = ConfiguredType(checkpoint.config()).value_or(stored);
  // kComputeTypes has the widest range first.
  return *std::ranges::find_if(kComputeTypes,
                               [&](DType type) { return type == stored || type == configured; });
}

std::optional<DType> ComputeTypeOf(const ModelOptions& options) {
  const std::optional<DType> compute = TypeOf(options.compute, kWeightTypes);
  return compute.has_value() ? compute : options.dtype;
}

ModelTypes TypesOf(const ModelOptions& options, const Checkpoint& checkpoint, bool on_gpu) {
  const std::optional<DType> set_weights = TypeOf(options.weights, kWeightTypes);
  const std::optional<DType> weights = set_weights.has_value() ? set_weights : options.dtype;
  const std::optional<DType> compute = ComputeTypeOf(options),
                             cache = TypeOf(options.cache, kComputeTypes);
  if (weights.has_value() && compute.has_value()) return Precision(*weights, *compute, cache);
  if (on_gpu) {
    const DType type = weights.has_value()   ? *weights
                       : compute.has_value() ? *compute
                                             : OwnType(checkpoint);
    return Precision(type, type, cache);
  }
  if (weights.has_value()) return Precision(*weights, DType::kFloat32, cache);
  // Only products in float32 take weights of other types.
  const DType type = compute.value_or(DType::kFloat32);
  ModelTypes types = Precision(type, type, cache);
  types.keeps_stored = type == DType::kFloat32;
  return types;
}

std::string WeightsNote(const Checkpoint& checkpoint) {
  if (checkpoint.weight_format().empty()) return "";
  return fmt::format(
      "weights are quantised ({}) and dequantised as they load; activations and caches "
      "are not quantised, whatever quantization_config says of them",
      checkpoint.weight_format());
}

std::string TypesNote(const ModelOptions& options, const Checkpoint& checkpoint, bool on_gpu,
                      const ComputeDevice& device) {
  if (!IsOpen(options)) return "";
  const ModelTypes types = TypesOf(options, checkpoint, on_gpu);
  const std::string stored = Name(StoredType(checkpoint));
  const std::string compute = Name(types.precision.compute);
  std::string note;
  if (types.keeps_stored) {
    note = fmt::format("dtype is auto: products in {}, weights as stored ({})", compute, stored);
  } else {
    note = fmt::format("dtype is auto: products in {}, weights in {}", compute,
                       Name(types.precision.weights));
    if (options.weights.empty() && options.compute.empty()) note += ", the checkpoint's own type";
  }
  const bool is_faster =
      types.precision.compute == DType::kFloat32 && device.SupportsDType(DType::kBFloat16).ok();
  if (is_faster) note += "; dtype=bfloat16 would be faster on this device, and less exact";
  return note;
}

}  // namespace beamline
