// What the kernels of TopCandidates share: their arguments, and sums of exponentials.
#pragma once

#include "kernels/cuda/choice/candidate_edits.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/device/warp_maximum.cuh"

namespace beamline::cuda {

// Ids in a chunk of the vocabulary, and threads by which its exponentials are summed: the order of
// additions is the same in every kernel, so that a row has the same bits in each.
inline constexpr int kChunk = 2048;
inline constexpr int kSumThreads = 256;
inline constexpr int kKeysPerThread = kChunk / kSumThreads;

struct CandidateArgs {
  float* logits;  // [num_rows, vocab_size]
  int64_t logits_stride;
  int num_rows, vocab_size, num_chunks, max_count;
  bool plain_apart;    // plain rows have a kernel of their own
  CandidateRow* rows;  // null: with the launch
  int32_t* num_done;   // [num_rows], instead of CandidateRow's of rows with the launch
  const LogitsEdits::Penalty* penalties;
  const LogitsEdits::Bias* biases;
  float2* sums;  // [num_rows, num_chunks]: a chunk's maximum and sum(exp(x - maximum))
  uint64_t*
      candidates;  // [num_rows, num_chunks, max_count], a row's `count` best first, 0 for none
  float* raw;      // as candidates: their unedited logits, of rows that are edited in place
  float* values;
  int32_t* ids;
  float* log_normalizers;          // may be null
  float* raw_values;               // may be null
  const float* whole_normalizers;  // may be null: each row is whole
};

// exp(x - maximum), to some units in the last place; below 2^-126 it is 0.
__device__ inline float ExpBelow(float x, float maximum) {
  constexpr float kLog2E = 1.4426950408889634f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"((x - maximum) * kLog2E));
  return power;
}

// (maximum, sum) of two disjoint sets' union.
__device__ inline float2 Combine(float2 a, float2 b) {
  const float maximum = fmaxf(a.x, b.x);
  const float sum = a.y * ExpBelow(a.x, maximum) + b.y * ExpBelow(b.x, maximum);
  return {maximum, isinf(maximum) ? a.y + b.y : sum};
}

// What a set adds to the sum of a union that has this maximum.
__device__ inline float SumBelow(float2 set, float maximum) {
  // Rounded before it is added, in every kernel alike.
  return isinf(maximum) ? set.y : __fmul_rn(set.y, ExpBelow(set.x, maximum));
}

// Combines the sets of a warp's lanes, in every lane.
__device__ inline float2 WarpCombine(float2 x) {
  const float maximum = WarpMaximum(x.x);
  return {maximum, WarpSum(SumBelow(x, maximum))};
}

// Combines what the warps of a block of kSumThreads found of a chunk: share(w) for warp w.
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

// The maximum and sum(exp(value - maximum)) of one thread's share of a chunk.
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

// log_softmax(x) = x - maximum - log_sum: {maximum, log_sum} of row `row`, whose chunk i has the
// sum sum_of(i), in lane 0 of a warp; {whole normalizer, 0} of a row of which this is a part.
template <typename SumOfChunk>
__device__ float2 WarpNormalizer(const CandidateArgs& args, int row, const SumOfChunk& sum_of) {
  if (args.whole_normalizers != nullptr) return {__ldcg(args.whole_normalizers + row), 0.0f};
  float2 sum = {-INFINITY, 0.0f};
  for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < args.num_chunks; i += kWarpSize) {
    sum = Combine(sum, sum_of(i));
  }
  sum = WarpCombine(sum);
  // An infinite maximum is the normaliser by itself.
  return {sum.x, isinf(sum.x) ? 0.0f : logf(sum.y)};
}

// The same of args.sums. Other blocks wrote them, so that they are read past L1, which may hold
// what was there before.
__device__ inline float2 WarpNormalizer(const CandidateArgs& args, int row) {
  const float2* sums = args.sums + static_cast<int64_t>(row) * args.num_chunks;
  return WarpNormalizer(args, row, [&](int i) { return __ldcg(sums + i); });
}

// A plain row that all rows are like: it travels with the launch.
struct CommonRow {
  CandidateRow row;
  LogitsEdits::Bias biases[kMostPlainBiases];
};

// Computes the rows that are CandidateRow::plain; all of them are like `common` where args.rows is
// null.
void SelectPlainCandidates(Device& device, const CandidateArgs& args, const CommonRow& common);

// Computes a call of few rows, all of which are plain; returns whether it is one.
bool SelectFewCandidates(Device& device, const CandidateArgs& args, const FlatEdits& edits);

}  // namespace beamline::cuda
