// The norm that a product of few rows applies to its rows while it loads them. Every block reads
// all of the rows anyway, and computes their norm again sooner than a kernel for it alone would
// start.
#pragma once

#include <optional>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/input_norm.h"

namespace beamline::cuda {

// A kernel multiplies its rows as they are.
struct NoNorm {
  static constexpr bool kNorms = false;
};

// A kernel norms its rows before it multiplies them.
template <typename T>
struct NormOnLoad {
  static constexpr bool kNorms = true;

  RowNorm<T> norm;
  float inverse_size;
  T* normed;  // as x
  int64_t normed_stride;

  // Prefetches gain and bias before the kernel's turn. All threads of the first block call it.
  __device__ void Prefetch() const {
    if (blockIdx.x != 0) return;
    PrefetchRow(norm.gain, norm.hidden_size, threadIdx.x, blockDim.x);
    if (norm.bias != nullptr) PrefetchRow(norm.bias, norm.hidden_size, threadIdx.x, blockDim.x);
  }
};

inline constexpr int kNormingWarps = 16;  // of a block of such kernels
// With more blocks than multiprocessors, blocks that norm one after another take longer than a
// kernel for the norm alone.
inline constexpr int kMostNormingBlocks = 1;  // of a multiprocessor
inline constexpr int kMostNormedColumns = 512;

template <typename T, typename Params>
NormOnLoad<T> NormOnLoadOf(const Params& params) {
  const int64_t hidden_size = params.x.dim(-1);
  return {MakeRowNorm<T>(params.input_norm, hidden_size), 1.0f / static_cast<float>(hidden_size),
          params.normed.template as<T>(), params.normed.row_stride};
}

// The norm of a product; nullopt where its rows are too many or too long, or not aligned.
template <typename T, typename Params>
std::optional<NormOnLoad<T>> MakeNormOnLoad(const Params& params) {
  if (params.x.dim(-1) > kMostNormedColumns || params.x.num_rows() > kNormingWarps) {
    return std::nullopt;
  }
  for (const Tensor* tensor : {&params.input_norm.gain, &params.input_norm.bias, &params.normed}) {
    if (!IsVectorizable(*tensor)) return std::nullopt;
  }
  return NormOnLoadOf<T>(params);
}

}  // namespace beamline::cuda
