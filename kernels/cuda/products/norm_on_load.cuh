// The norm that a product of few rows applies to its rows while it loads them. Every block reads
// all rows anyway, and computes their norm again sooner than a separate kernel would start.
#pragma once

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/product_picker.h"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/input_norm.h"

namespace beamline::cuda {

// The kernel multiplies its rows as they are.
struct NoNorm {
  static constexpr bool kNorms = false;
};

// The kernel normalises its rows before it multiplies them.
template <typename T>
struct NormOnLoad {
  static constexpr bool kNorms = true;

  RowNorm<T> norm;
  float inverse_size;
  T* normed;  // as x
  int64_t normed_stride;

  // Prefetches gain and bias before WaitForEarlierKernels. Only the first block does so, by all of
  // its threads.
  __device__ void Prefetch() const {
    if (blockIdx.x != 0) return;
    PrefetchRow(norm.gain, norm.hidden_size, threadIdx.x, blockDim.x);
    if (norm.bias != nullptr) PrefetchRow(norm.bias, norm.hidden_size, threadIdx.x, blockDim.x);
  }
};

template <typename T, typename Params>
NormOnLoad<T> NormOnLoadOf(const Params& params) {
  const int64_t hidden_size = params.x.dim(-1);
  return {MakeRowNorm<T>(params.input_norm, hidden_size), 1.0f / static_cast<float>(hidden_size),
          params.normed.template as<T>(), params.normed.row_stride};
}

}  // namespace beamline::cuda
