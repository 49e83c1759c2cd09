// What products with a gradient epilogue need besides cuBLASLt. Training programs pass it to
// LtMatMul (gradients.h). The server's module does not include it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

class LtGradients {
 public:
  // See LtTrial.
  class Trial {
   public:
    virtual ~Trial() = default;
    virtual const LtProduct& product() const = 0;
    virtual const LtProduct& reference() const = 0;
    virtual void Reset() = 0;
    virtual bool Agrees() = 0;
  };

  virtual ~LtGradients() = default;
  // See BackwardEpilogue.
  virtual void Finish(Device& device, const LtProduct& product, cudaStream_t stream) const = 0;
  // See LtTrial::Create.
  virtual absl::StatusOr<std::unique_ptr<Trial>> MakeTrial(Device& device,
                                                           const LtProduct& like) const = 0;
};

}  // namespace beamline::cuda
