// Shared by Sample's kernel and its two ways of filtering: a row, and sums over the block that
// computes it.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/choice/ordered_key.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

inline constexpr int kSampleThreads = 1024;
inline constexpr int kSampleWarps = kSampleThreads / kWarpSize;
// Scale of masses in [0, 1] as integers: 2^18 tokens of mass 1 stay below 2^63.
inline constexpr float kMassScale = 0x1p44f;

__device__ inline uint64_t FixedMass(float mass) {
  return static_cast<uint64_t>(mass * kMassScale);
}

// One row while a whole block filters it. A token that a filter removed has mass 0.
struct Row {
  const float* logits;
  float* masses;   // [vocab_size]
  uint32_t* keys;  // [vocab_size], the order of the current filter; greater first
  int vocab_size;
  float temperature;
  float maximum;  // of the scores

  // Monotonic: not less for a greater logit.
  __device__ float ScoreOf(float logit) const {
    constexpr float kLargest = 3.402823466e38f;
    const float score = temperature == 1.0f ? logit : logit / temperature;
    return isnan(score) ? -INFINITY : fminf(score, kLargest);
  }
  __device__ float Score(int id) const { return ScoreOf(logits[id]); }
  __device__ float Mass(float score) const { return expf(score - maximum); }
};

// Calls body(id) for every token. A thread gets its own tokens in ascending order.
template <typename Body>
__device__ void ForEachToken(const Row& row, Body body) {
#pragma unroll 8
  for (int id = threadIdx.x; id < row.vocab_size; id += kSampleThreads) body(id);
}

template <typename T>
__device__ T SampleBlockSum(T x) {
  __shared__ T partials[kSampleWarps];
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kFullMask, x, offset);
  }
  __syncthreads();
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  T total = 0;
  for (int i = 0; i < kSampleWarps; ++i) total += partials[i];
  return total;
}

__device__ inline float SampleBlockMax(float x) {
  __shared__ float partials[kSampleWarps];
  x = WarpMax(x);
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  return WarpMax(partials[threadIdx.x % kWarpSize]);
}

// The sum of a warp's lanes up to the calling one.
__device__ inline uint64_t InclusiveScan(uint64_t x) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const uint64_t other = __shfl_up_sync(kFullMask, x, offset);
    if (lane >= offset) x += other;
  }
  return x;
}

// The mass that the greatest tokens must reach to have `share` of `total`; at least 1.
__device__ inline uint64_t TargetMass(float share, uint64_t total) {
  const double wanted = ceil(static_cast<double>(share) * static_cast<double>(total));
  if (wanted < 1) return 1;
  return wanted < static_cast<double>(total) ? static_cast<uint64_t>(wanted) : total;
}
// The sampled point in [0, total), for masses in the order of ids. The tokens before the sampled
// one have at most this mass.
__device__ inline uint64_t DrawnMass(double uniform, uint64_t total) {
  const auto at = static_cast<uint64_t>(uniform * static_cast<double>(total));
  return at < total ? at : total - 1;
}

}  // namespace beamline::cuda
