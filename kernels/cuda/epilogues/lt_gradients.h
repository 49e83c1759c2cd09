// What products whose epilogue is a gradient's need besides cuBLASLt. Programs that train give it
// to LtMatMul (gradients.h); a server's module does not carry it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

class LtGradients {
 public:
  // As LtTrial.
  class Trial {
   public:
    virtual ~Trial() = default;
    virtual const LtProduct& product() const = 0;
    virtual const LtProduct& reference() const = 0;
    virtual void Reset() = 0;
    virtual bool Agrees() = 0;
  };

  virtual ~LtGradients() = default;
  // As BackwardEpilogue.
  virtual void Finish(Device& device, const LtProduct& product, cudaStream_t stream) const = 0;
  // As LtTrial::Create.
  virtual absl::StatusOr<std::unique_ptr<Trial>> MakeTrial(Device& device,
                                                           const LtProduct& like) const = 0;
};

}  // namespace beamline::cuda
