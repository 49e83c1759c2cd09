// Whether an algorithm of cuBLASLt computes a row of a product the same, bit by bit, as another one
// does and in whatever company: those that cut sums over k by how many tiles there are do not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// Random rows times a product's own b. Outputs of 16 bits hide most of what orders of a sum differ
// by; of thousands of elements enough show it.
class LtRows {
 public:
  // `like`: valid, of bucket_rows, with `num_rows` rows here. RESOURCE_EXHAUSTED: the GPU has no
  // room for that many rows of its operands and twice of d; a fault of the device is returned too.
  static absl::StatusOr<std::unique_ptr<LtRows>> Create(Device& device, const LtProduct& like,
                                                        int64_t num_rows);
  ~LtRows();
  LtRows(const LtRows&) = delete;
  LtRows& operator=(const LtRows&) = delete;

  // All rows at once, to where the others are compared with.
  const LtProduct& expected() const { return expected_; }
  // Rows begin to begin + count, of a key equal to that of a product with as many.
  LtProduct Part(int64_t begin, int64_t count) const;

  // Runs all rows as parts whose sizes go round `sizes`; `launch` returns whether it could. Whether
  // every row came out as expected() has it. Synchronises.
  bool Agrees(std::span<const int64_t> sizes, const std::function<bool(const LtProduct&)>& launch);

 private:
  LtRows(Device& device, int64_t num_rows) : device_(device), num_rows_(num_rows) {}
  absl::Status Initialize(const LtProduct& like);
  // Moves a tensor to memory of its own for num_rows_ rows.
  absl::Status Place(Tensor& tensor);

  Device& device_;
  int64_t num_rows_;
  std::vector<void*> memory_;
  LtProduct whole_, expected_;
  int* differs_ = nullptr;
};

}  // namespace beamline::cuda
