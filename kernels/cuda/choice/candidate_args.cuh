// Shared by the kernels of TopCandidates: arguments, and sums of exponentials.
#pragma once

#include "kernels/cuda/choice/candidate_edits.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/device/warp_maximum.cuh"

namespace beamline::cuda {

// Ids in a chunk of the vocabulary, and threads that sum its exponentials. All kernels add in the
// same order, so that a row has the same bits in each.
inline constexpr int kChunk = 2048;
inline constexpr int kSumThreads = 256;
inline constexpr int kKeysPerThread = kChunk / kSumThreads;

struct CandidateArgs {
  float* logits;  // [num_rows, vocab_size]
  int64_t logits_stride;
  int num_rows, vocab_size, num_chunks, max_count;
  bool plain_apart;    // plain rows have their own kernel
  CandidateRow* rows;  // null: sent with the launch
  int32_t* num_done;   // [num_rows]; replaces CandidateRow's for rows sent with the launch
  const LogitsEdits::Penalty* penalties;
  const LogitsEdits::Bias* biases;
  float2* sums;          // [num_rows, num_chunks]: a chunk's maximum and sum(exp(x - maximum))
  uint64_t* candidates;  // [num_rows, num_chunks, max_count]: the `count` best first; 0: none
  float* raw;            // as candidates: their unedited logits, for rows edited in place
  float* values;
  int32_t* ids;
  float* log_normalizers;          // may be null
  float* raw_values;               // may be null
  const float* whole_normalizers;  // may be null: rows are complete
};

// exp(x - maximum), to some units in the last place; 0 below 2^-126.
__device__ inline float ExpBelow(float x, float maximum) {
  constexpr float kLog2E = 1.4426950408889634f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((x - maximum) * kLog2E));
  return power;
}

// (maximum, sum) of the union of two disjoint sets.
__device__ inline float2 Combine(float2 a, float2 b) {
  const float maximum = fmaxf(a.x, b.x);
  const float sum = a.y * ExpBelow(a.x, maximum) + b.y * ExpBelow(b.x, maximum);
  return {maximum, isinf(maximum) ? a.y + b.y : sum};
}

// The share of a set in the sum of a union with this maximum.
__device__ inline float SumBelow(float2 set, float maximum) {
  // All kernels round before they add.
  return isinf(maximum) ? set.y : __fmul_rn(set.y, ExpBelow(set.x, maximum));
}

// Combines the sets of a warp's lanes. Every lane gets the result.
__device__ inline float2 WarpCombine(float2 x) {
  const float maximum = WarpMaximum(x.x);
  return {maximum, WarpSum(SumBelow(x, maximum))};
}

// Combines the results for a chunk from the warps of a block of kSumThreads: share(w) of warp w.
template <int kUnroll, typename Share>
__device__ float2 CombineShares(const Share& share) {
  constexpr int kShares = kSumThreads / kWarpSize;
  float2 sum = {-INFINITY, 0.0f};
#pragma unroll kUnroll
  for (int w = 0; w < kShares; ++w) sum.x = fmaxf(sum.x, share(w).x);
#pragma unroll kUnroll
  for (int w = 0; w < kShares; ++w) sum.y += SumBelow(share(w), sum.x);
  return sum;
}

// The maximum and sum(exp(value - maximum)) of a thread's share of a chunk.
__device__ inline float2 SumOf(const float (&values)[kKeysPerThread]) {
  float maximum = -INFINITY;
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) maximum = fmaxf(maximum, values[j]);
  float2 sum = {maximum, 0.0f};
  if (!isinf(maximum)) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) sum.y += ExpBelow(values[j], maximum);
  }
  return sum;
}

// {maximum, log_sum} of row `row`, in lane 0 of a warp: log_softmax(x) = x - maximum - log_sum.
// sum_of(i) is the sum of chunk i. If the row is a part of a whole row: {whole normalizer, 0}.
template <typename SumOfChunk>
__device__ float2 WarpNormalizer(const CandidateArgs& args, int row, const SumOfChunk& sum_of) {
  if (args.whole_normalizers != nullptr) return {__ldcg(args.whole_normalizers + row), 0.0f};
  float2 sum = {-INFINITY, 0.0f};
  for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < args.num_chunks; i += kWarpSize) {
    sum = Combine(sum, sum_of(i));
  }
  sum = WarpCombine(sum);
  // An infinite maximum is the normaliser.
  return {sum.x, isinf(sum.x) ? 0.0f : logf(sum.y)};
}

// The same with args.sums. Other blocks wrote these, so they are read past L1, which may hold old
// values.
__device__ inline float2 WarpNormalizer(const CandidateArgs& args, int row) {
  const float2* sums = args.sums + static_cast<int64_t>(row) * args.num_chunks;
  return WarpNormalizer(args, row, [&](int i) { return __ldcg(sums + i); });
}

// A plain row that all rows equal. It is sent with the launch.
struct CommonRow {
  CandidateRow row;
  LogitsEdits::Bias biases[kMostPlainBiases];
};

// Computes the rows with CandidateRow::plain. If args.rows is null, all rows equal `common`.
void SelectPlainCandidates(Device& device, const CandidateArgs& args, const CommonRow& common);

// Computes a call of few rows that are all plain, on sm_90 and newer. Returns false, and does
// nothing, for other calls.
bool SelectFewCandidates(Device& device, const CandidateArgs& args, const FlatEdits& edits);

}  // namespace beamline::cuda
