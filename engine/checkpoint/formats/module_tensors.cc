#include "engine/checkpoint/formats/module_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/float16.h"

namespace beamline {
namespace {

std::vector<uint16_t> Halves(const StoredTensor& tensor) {
  std::vector<uint16_t> bits(tensor.bytes.size() / sizeof(uint16_t));
  std::memcpy(bits.data(), tensor.bytes.data(), bits.size() * sizeof(uint16_t));
  return bits;
}

}  // namespace

bool ModuleTensors::Has(std::string_view suffix) const {
  return stored_.FindStored(fmt::format("{}.{}", name_, suffix)).ok();
}

absl::StatusOr<StoredTensor> ModuleTensors::Find(
    std::string_view suffix, std::initializer_list<std::string_view> types) const {
  BEAMLINE_ASSIGN_OR_RETURN(StoredTensor tensor,
                            stored_.FindStored(fmt::format("{}.{}", name_, suffix)));
  if (std::ranges::find(types, tensor.dtype) == types.end()) {
    return TensorFault(tensor, fmt::format("{} is expected by quantization_config, found {}",
                                           fmt::join(types, " or "), tensor.dtype));
  }
  return tensor;
}

absl::StatusOr<StoredTensor> ModuleTensors::Find(std::string_view suffix,
                                                 std::initializer_list<std::string_view> types,
                                                 const std::vector<int64_t>& shape) const {
  BEAMLINE_ASSIGN_OR_RETURN(StoredTensor tensor, Find(suffix, types));
  if (tensor.shape != shape) {
    return TensorFault(tensor,
                       fmt::format("shape [{}] is expected by quantization_config, found [{}]",
                                   fmt::join(shape, ", "), fmt::join(tensor.shape, ", ")));
  }
  return tensor;
}

absl::Status TensorFault(const StoredTensor& tensor, std::string_view fault) {
  return absl::InvalidArgumentError(
      fmt::format("{}: tensor \"{}\": {}", tensor.file, tensor.name, fault));
}

DType FloatType(const StoredTensor& tensor) {
  if (tensor.dtype == "F16") return DType::kFloat16;
  return tensor.dtype == "BF16" ? DType::kBFloat16 : DType::kFloat32;
}

std::vector<float> Floats(const StoredTensor& tensor) {
  const DType dtype = FloatType(tensor);
  std::vector<float> values(tensor.bytes.size() / SizeOf(dtype));
  if (dtype == DType::kFloat32) {
    std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(float));
  } else {
    std::ranges::transform(Halves(tensor), values.begin(),
                           dtype == DType::kFloat16 ? FromFloat16 : FromBFloat16);
  }
  return values;
}

absl::StatusOr<std::vector<float>> Scales(const StoredTensor& tensor, bool may_be_zero) {
  std::vector<float> scales = Floats(tensor);
  const auto fault = std::ranges::find_if(
      scales, [&](float scale) { return !std::isfinite(scale) || (scale == 0 && !may_be_zero); });
  if (fault == scales.end()) return scales;
  return TensorFault(
      tensor, fmt::format("scale {} is {}; accepted: finite numbers{}", fault - scales.begin(),
                          *fault, may_be_zero ? "" : " other than 0"));
}

std::vector<uint32_t> Words(const StoredTensor& tensor) {
  std::vector<uint32_t> words(tensor.bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), tensor.bytes.data(), words.size() * sizeof(uint32_t));
  return words;
}

}  // namespace beamline
