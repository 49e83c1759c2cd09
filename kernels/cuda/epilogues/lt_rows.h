// Checks whether an algorithm of cuBLASLt computes a row of a product with the same bits as another
// algorithm, whatever the other rows are. Algorithms that split sums over k by the number of tiles
// do not.
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

// Random rows times a product's own b. Outputs of 16 bits hide most differences between orders of a
// sum. Among thousands of elements enough show them.
class LtRows {
 public:
  // `like`: valid, with bucket_rows; its rows become `num_rows` here. RESOURCE_EXHAUSTED: the GPU
  // has no room for that many rows of its operands and twice of d. Faults of the device are
  // returned too.
  static absl::StatusOr<std::unique_ptr<LtRows>> Create(Device& device, const LtProduct& like,
                                                        int64_t num_rows);
  ~LtRows();
  LtRows(const LtRows&) = delete;
  LtRows& operator=(const LtRows&) = delete;

  // All rows at once, with the d that the others are compared with.
  const LtProduct& expected() const { return expected_; }
  // Rows begin to begin + count. Its key equals that of a product with `count` rows.
  LtProduct Part(int64_t begin, int64_t count) const;

  // Runs all rows in parts whose sizes cycle through `sizes`; `launch` returns whether it could.
  // Returns whether every row equals that of expected(). Synchronises.
  bool Agrees(std::span<const int64_t> sizes, const std::function<bool(const LtProduct&)>& launch);

 private:
  LtRows(Device& device, int64_t num_rows) : device_(device), num_rows_(num_rows) {}
  absl::Status Initialize(const LtProduct& like);
  // Moves a tensor to its own memory, for num_rows_ rows.
  absl::Status Place(Tensor& tensor);

  Device& device_;
  int64_t num_rows_;
  std::vector<void*> memory_;
  LtProduct whole_, expected_;
  int* differs_ = nullptr;
};

}  // namespace beamline::cuda
