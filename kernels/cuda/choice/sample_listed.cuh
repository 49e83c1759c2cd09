// Sample if a filter leaves few tokens, as with top-k and peaked distributions. A pass over the row
// lists its greatest tokens, at most one per thread of the block. All filters and the sampling run
// on the list. Masses are the same integers, and ids have the same order, as in passes over the
// whole row. So the same tokens are kept and sampled.
#pragma once

#include "kernels/cuda/choice/sample_row.cuh"
#include "kernels/operators.h"

namespace beamline::cuda {

inline constexpr int kMostListed = kSampleThreads;
// The greatest top-k whose tokens are listed, and the number of tokens to list without top-k. The
// rest of the list has room for equal values and for tokens that are unevenly distributed over the
// threads.
inline constexpr int kMostListedTopK = 512;
inline constexpr int kListedWithoutTopK = 256;

struct SampleList {
  int size;
  int32_t found[kMostListed];  // in any order
  int32_t ids[kMostListed];    // ascending
  uint32_t keys[kMostListed];
  uint64_t masses[kMostListed];
  uint64_t warp_sums[kSampleWarps];
};

// The greatest number that at least `count` threads of the block reach; 0 if fewer threads have
// one. A thread with `own` 0 has none.
__device__ inline uint32_t RankedKey(uint32_t own, int count) {
  uint32_t found = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (__syncthreads_count(own >= (found | bit)) >= count) found |= bit;
  }
  return found;
}

// A thread's listed token.
struct ListedToken {
  bool exists;
  float score, mass;
  uint32_t key;
};

// The mass of the listed tokens with greater keys than this thread's token, and of those with its
// key and lower ids. Called by every thread.
__device__ inline uint64_t MassBefore(const ListedToken& token, SampleList& list) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  list.keys[thread] = token.key;
  list.masses[thread] = token.exists ? FixedMass(token.mass) : 0;
  __syncthreads();
  uint64_t before = 0;
  if (token.exists) {
#pragma unroll 4
    for (int i = 0; i < list.size; ++i) {
      const uint32_t key = list.keys[i];
      if (key > token.key || (key == token.key && i < thread)) before += list.masses[i];
    }
  }
  return before;
}

// The result of a pass that lists tokens of a row.
struct Listing {
  bool complete;  // the list has every token with a score of at least least_score
  bool bounded;   // the list leaves out other tokens
  float least_score;
  uint64_t mass;  // of the whole row, if requested
};

// Lists the tokens that reach the count-th greatest of the threads' greatest logits. So `count`
// threads have such a token. Called by every thread, with its own `greatest`.
__device__ inline Listing ListGreatest(const Row& row, float greatest, int count, bool sums,
                                       SampleList& list) {
  float least = -INFINITY;
  if (row.vocab_size > kMostListed) least = FromOrderedKey(RankedKey(OrderedKey(greatest), count));
  // A logit below `least` may have the same score. Such logits are near it.
  constexpr float kFarthest = 1e30f;
  Listing listing = {false, least > -INFINITY, row.ScoreOf(least), 0};
  const bool bounded = listing.bounded;
  if (bounded && fabsf(least) > kFarthest) return listing;
  const float near = least - fabsf(least) * 1e-6f - 1.0f / kFarthest;
  if (threadIdx.x == 0) list.size = 0;
  __syncthreads();
  uint64_t mass = 0;
  ForEachToken(row, [&](int id) {
    const float logit = row.logits[id];
    if (sums) mass += FixedMass(row.Mass(row.ScoreOf(logit)));
    if (bounded ? logit < near : !(logit > -INFINITY)) return;
    const float score = row.ScoreOf(logit);
    if (bounded ? !(score >= listing.least_score) : score == -INFINITY) return;
    const int place = atomicAdd(&list.size, 1);
    if (place < kMostListed) list.found[place] = id;
  });
  __syncthreads();
  if (sums) listing.mass = SampleBlockSum(mass);
  listing.complete = list.size <= kMostListed;
  return listing;
}

// The listed tokens in the order of their ids, one per thread. Called by every thread.
__device__ inline ListedToken TokenOf(const Row& row, SampleList& list) {
  const int thread = static_cast<int>(threadIdx.x);
  ListedToken token = {thread < list.size, -INFINITY, 0.0f, 0};
  if (token.exists) {
    const int32_t own = list.found[thread];
    int rank = 0;
#pragma unroll 8
    for (int i = 0; i < list.size; ++i) rank += list.found[i] < own ? 1 : 0;
    list.ids[rank] = own;
  }
  __syncthreads();
  if (token.exists) {
    token.score = row.Score(list.ids[thread]);
    token.mass = row.Mass(token.score);
    token.key = OrderedKey(token.score);
  }
  return token;
}

__device__ inline uint64_t ListedMass(const ListedToken& token) {
  return SampleBlockSum(FixedMass(token.mass));
}

// KeepTypical for the listed tokens.
__device__ inline void KeepTypicalListed(const Row& row, float typical_p, ListedToken& token,
                                         SampleList& list) {
  const uint64_t whole = ListedMass(token);
  const double total = static_cast<double>(whole) / kMassScale;
  const auto log_total = static_cast<float>(log(total));
  const float log_probability = token.score - row.maximum - log_total;
  const double entropy =
      SampleBlockSum(token.mass > 0 ? -(token.mass / total * log_probability) : 0.0);
  const float distance = fabsf(-log_probability - static_cast<float>(entropy));
  token.key = token.mass > 0 ? ~OrderedKey(distance) : 0;
  if (MassBefore(token, list) >= TargetMass(typical_p, whole)) token.mass = 0;
}

// Filters the listed tokens. False if tokens outside of the list matter.
__device__ inline bool FilterListed(const Row& row, const SampleRow& options, bool use_top_k,
                                    const Listing& listing, ListedToken& token, SampleList& list) {
  const bool use_top_p = options.top_p < 1.0f;
  if (use_top_k && token.key < RankedKey(token.key, options.top_k)) token.mass = 0;
  if (use_top_p) {
    const uint64_t listed = ListedMass(token);
    const uint64_t target = TargetMass(options.top_p, use_top_k ? listed : listing.mass);
    if (listed < target) return false;
    if (MassBefore(token, list) >= target) token.mass = 0;
  }
  if (options.min_p > 0.0f) {
    const float least_mass = fminf(options.min_p, 1.0f);
    // Tokens outside of the list weigh no more than the least listed one, except for the rounding
    // of an exponential.
    if (!use_top_k && !use_top_p && listing.bounded &&
        row.Mass(listing.least_score) * 1.001f >= least_mass) {
      return false;
    }
    if (token.mass < least_mass) token.mass = 0;
  }
  if (options.typical_p < 1.0f) KeepTypicalListed(row, options.typical_p, token, list);
  return true;
}

// Samples a token of a filtered row. False if the list does not show what the filters keep. Called
// by every thread, with the greatest logit of its own tokens.
__device__ inline bool DrawListed(const Row& row, const SampleRow& options, float greatest,
                                  double uniform, SampleList& list, int32_t* drawn) {
  const bool use_top_k = options.top_k > 0 && options.top_k < row.vocab_size;
  const bool use_top_p = options.top_p < 1.0f;
  if (use_top_k ? options.top_k > kMostListedTopK : !use_top_p && options.min_p <= 0.0f) {
    return false;
  }
  const Listing listing =
      ListGreatest(row, greatest, use_top_k ? options.top_k : kListedWithoutTopK,
                   /*sums=*/use_top_p && !use_top_k, list);
  if (!listing.complete) return false;
  ListedToken token = TokenOf(row, list);
  if (!FilterListed(row, options, use_top_k, listing, token, list)) return false;

  const int thread = static_cast<int>(threadIdx.x);
  const uint64_t own_mass = FixedMass(token.mass);
  const uint64_t through = InclusiveScan(own_mass);
  if (thread % kWarpSize == kWarpSize - 1) list.warp_sums[thread / kWarpSize] = through;
  __syncthreads();
  uint64_t before = through - own_mass, total = 0;
  for (int i = 0; i < kSampleWarps; ++i) {
    if (i < thread / kWarpSize) before += list.warp_sums[i];
    total += list.warp_sums[i];
  }
  const uint64_t target = DrawnMass(uniform, total);
  if (before <= target && target < before + own_mass) *drawn = list.ids[thread];
  return true;
}

}  // namespace beamline::cuda
