#include "kernels/cuda/products/weight.h"

#include <cuda_runtime_api.h>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"

namespace beamline::cuda {
namespace {

constexpr int64_t kAccessBytes = 16;

int64_t OutFeatures(const HostMatrix& part) { return part.transposed ? part.cols : part.rows; }
int64_t InFeatures(const HostMatrix& part) { return part.transposed ? part.rows : part.cols; }

}  // namespace

CudaWeight::~CudaWeight() { device_.arena().Free(data_); }

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaWeight::Pack(std::span<const HostMatrix> parts,
                                                               DType dtype, Device& device) {
  BEAMLINE_CHECK(!parts.empty());
  std::unique_ptr<CudaWeight> weight(new CudaWeight(device));
  weight->dtype_ = dtype;
  weight->in_features_ = InFeatures(parts[0]);
  for (const HostMatrix& part : parts) {
    BEAMLINE_CHECK(InFeatures(part) == weight->in_features_);
    weight->out_features_ += OutFeatures(part);
  }
  const auto element_bytes = static_cast<int64_t>(SizeOf(dtype));
  weight->row_stride_ = weight->in_features_ * element_bytes % kAccessBytes == 0
                            ? weight->in_features_
                            : RoundUp(weight->in_features_, kPadding);
  weight->padded_rows_ = RoundUp(weight->out_features_, kPadding);
  const int64_t row_bytes = weight->row_stride_ * element_bytes;
  const auto bytes = static_cast<size_t>(weight->padded_rows_ * row_bytes);
  BEAMLINE_ASSIGN_OR_RETURN(weight->data_, device.arena().Allocate(bytes, ArenaUse::kWeights));
  // Every kernel that reads a weight relies on this.
  BEAMLINE_CHECK(reinterpret_cast<uintptr_t>(weight->data_) % kAccessBytes == 0 &&
                 row_bytes % kAccessBytes == 0);
  device.Check(cudaMemsetAsync(weight->data_, 0, bytes, device.stream()), "PackWeight");

  char* rows = static_cast<char*>(weight->data_);
  for (const HostMatrix& part : parts) {
    const size_t part_bytes = static_cast<size_t>(part.rows * part.cols) * SizeOf(part.dtype);
    // The raw part gets its own memory instead of scratch memory, which would keep its size for
    // good.
    BEAMLINE_ASSIGN_OR_RETURN(void* raw, device.arena().Allocate(part_bytes, ArenaUse::kWorkspace));
    device.CopyToDevice(part.data, raw, part_bytes);
    LayOutPart(device, part, raw, dtype, rows, weight->row_stride_);
    device.arena().Free(raw);
    rows += OutFeatures(part) * row_bytes;
  }
  // A kernel may read a weight before WaitForEarlierKernels (stream_product.cu).
  BEAMLINE_RETURN_IF_ERROR(device.Synchronize());
  return weight;
}

}  // namespace beamline::cuda
