// The few best of a block's candidates (ordered_key.cuh).
#pragma once

#include "kernels/cuda/choice/ordered_key.cuh"

namespace beamline::cuda {

// Limit of the candidates that TakeBest finds.
inline constexpr int kMostTaken = kWarpSize;

// best[0 .. count) = the greatest keys of the block's threads, which hold kKeys each. Descending; 0
// if there are fewer. count <= kMostTaken. `best` is in shared memory and has room for all keys,
// whose number is a power of two. Keys other than 0 are distinct. Ends with a barrier.
//
// 32 groups of threads find their maxima. The count-th greatest maximum is a threshold, which at
// least `count` keys reach and, of random keys, hardly more. These keys are listed and ranked.
template <int kThreads, int kKeys>
__device__ void TakeBest(const uint64_t (&keys)[kKeys], int count, uint64_t* best) {
  constexpr int kGroup = kThreads / kWarpSize;
  static_assert(kGroup > 0 && kWarpSize % kGroup == 0);
  __shared__ uint64_t maxima[kWarpSize];
  __shared__ int num_listed;
  uint64_t own = 0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) own = keys[i] > own ? keys[i] : own;
#pragma unroll
  for (int offset = kGroup / 2; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(kFullMask, own, offset);
    own = other > own ? other : own;
  }
  if (threadIdx.x % kGroup == 0) maxima[threadIdx.x / kGroup] = own;
  if (threadIdx.x == 0) num_listed = 0;
  __syncthreads();

  const uint64_t maximum = maxima[threadIdx.x % kWarpSize];
  int num_greater = 0;
#pragma unroll 4  // longer code takes longer to fetch than it saves
  for (int i = 0; i < kWarpSize; ++i) num_greater += maxima[i] > maximum;
  // If fewer than `count` groups have a key, no group has this rank. Then all keys are listed.
  const unsigned at = __ballot_sync(kFullMask, num_greater == count - 1);
  uint64_t threshold = __shfl_sync(kFullMask, maximum, at == 0 ? 0 : __ffs(at) - 1);
  if (at == 0) threshold = 0;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    if (keys[i] != 0 && keys[i] >= threshold) best[atomicAdd(&num_listed, 1)] = keys[i];
  }
  __syncthreads();

  const int listed = num_listed;
  const int thread = static_cast<int>(threadIdx.x);
  if (listed <= kThreads) {
    const uint64_t key = thread < listed ? best[thread] : 0;
    int rank = 0;
    for (int i = 0; i < listed; ++i) rank += best[i] > key;
    __syncthreads();
    if (thread >= listed && thread < count) best[thread] = 0;
    if (thread < listed && rank < count) best[rank] = key;
    __syncthreads();
  } else {
    for (int i = listed + thread; i < kKeys * kThreads; i += kThreads) best[i] = 0;
    BitonicSort<kKeys * kThreads>(best);
  }
}

}  // namespace beamline::cuda
