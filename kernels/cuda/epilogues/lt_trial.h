// Whether an algorithm of cuBLASLt computes what it should: some of its candidates write wrong sums
// for an epilogue that sums, at some shapes.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_gradients.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// A product like another one, on memory of its own: its operands are random, so that an addend that
// is left out shows whatever the original's operands hold, and NaN stands wherever the product must
// not read (in its outputs, between the rows and after the last one), so that reading there shows
// too.
class LtTrial final : public LtGradients::Trial {
 public:
  // `like`: valid, with an epilogue that writes sums. RESOURCE_EXHAUSTED: the GPU has no room for
  // its operands and twice its outputs; a fault of the device is returned too.
  static absl::StatusOr<std::unique_ptr<LtTrial>> Create(Device& device, const LtProduct& like);
  ~LtTrial() override;
  LtTrial(const LtTrial&) = delete;
  LtTrial& operator=(const LtTrial&) = delete;

  // Of a key equal to the original's. Not its alpha, but one that makes d's elements about 1.
  const LtProduct& product() const override { return product_; }
  // The same operands with outputs of its own, which the caller computes in a way that it
  // trusts before the first Agrees().
  const LtProduct& reference() const override { return reference_; }

  // Fills product()'s outputs with NaN again, and c where d adds to it.
  void Reset() override { Reset(product_); }
  // Whether product()'s sums and d are reference()'s within the rounding of their types.
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
