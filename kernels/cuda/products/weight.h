// Weight matrices on the GPU.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// [padded_rows, row_stride], row-major, one row per output feature. Rows and columns outside the
// matrix are zero, so that every product may run on whole tiles. Measured on an H200, a bfloat16
// product with 50,257 columns runs 7.6x slower than one with 50,304.
class CudaWeight : public PackedWeight {
 public:
  static constexpr int64_t kPadding = 64;

  // Packs the parts, stacked along the output features, converted to dtype. RESOURCE_EXHAUSTED
  // without the device memory for it. Faults of the device are returned too. REQUIRES:
  // ValidateWeightParts(parts) is OK.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(std::span<const HostMatrix> parts,
                                                            DType dtype, Device& device);
  ~CudaWeight() override;

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  int64_t padded_rows() const { return padded_rows_; }
  // Elements between rows: in_features, or the next multiple of kPadding if a row of in_features is
  // not a whole number of 16-byte accesses.
  int64_t row_stride() const { return row_stride_; }

 private:
  explicit CudaWeight(Device& device) : device_(device) {}

  Device& device_;
  void* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  int64_t padded_rows_ = 0;
  int64_t row_stride_ = 0;
};

// Converts a part, in the layout of the checkpoint but in device memory, into the rows of a weight
// that start at `rows`. Declared here for weight.cc; defined in weight_layout.cu.
void LayOutPart(Device& device, const HostMatrix& part, const void* part_on_device, DType dtype,
                void* rows, int64_t row_stride);

}  // namespace beamline::cuda
