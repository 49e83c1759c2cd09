// Checks whether an algorithm of cuBLASLt computes correct sums. For epilogues that write sums,
// some of its candidates write wrong ones at some shapes.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_gradients.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// A product like another one, in its own memory. Its operands are random, so that a missing addend
// shows whatever the original's operands hold. NaN fills everything that the product must not read
// (its outputs, between the rows and after the last one), so that reading there shows too.
class LtTrial final : public LtGradients::Trial {
 public:
  // `like`: valid, with an epilogue that writes sums. RESOURCE_EXHAUSTED: the GPU has no room for
  // its operands and twice its outputs. Faults of the device are returned too.
  static absl::StatusOr<std::unique_ptr<LtTrial>> Create(Device& device, const LtProduct& like);
  ~LtTrial() override;
  LtTrial(const LtTrial&) = delete;
  LtTrial& operator=(const LtTrial&) = delete;

  // Its key equals the original's. Its alpha makes d's elements about 1.
  const LtProduct& product() const override { return product_; }
  // The same operands with their own outputs. The caller computes these in a way that it trusts
  // before the first Agrees().
  const LtProduct& reference() const override { return reference_; }

  // Fills product()'s outputs with NaN again, and c if d adds to it.
  void Reset() override { Reset(product_); }
  // Whether product()'s sums and d equal reference()'s within the rounding of their types.
  // Synchronises.
  bool Agrees() override;

 private:
  explicit LtTrial(Device& device) : device_(device) {}
  absl::Status Initialize(const LtProduct& like);
  // Moves a tensor to memory full of NaN.
  absl::Status Place(Tensor& tensor);
  void Reset(const LtProduct& product);

  Device& device_;
  std::vector<void*> memory_;
  LtProduct product_, reference_;
  int* differs_ = nullptr;
};

}  // namespace beamline::cuda
