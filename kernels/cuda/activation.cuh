// Activations in float32, by the accurate functions of the CUDA math library.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {

__device__ inline float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return fmaxf(x, 0.0f);
    case Activation::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kSilu:
      return x / (1.0f + expf(-x));
    case Activation::kTanh:
      return tanhf(x);
  }
  return x;
}

}  // namespace beamline::cuda
