// The part of a transformer on one tensor-parallel rank, split as in Megatron-LM
// (arXiv:1909.08053).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/transformer/spec.h"

namespace beamline {

// Maximum number of tensor-parallel ranks.
inline constexpr int32_t kMostRanks = 8;

// Rank `rank` of `size`. Its range of a split dimension is Begin .. End. The ranges have equal
// sizes if the total is divisible, else sizes that differ by one.
struct Shard {
  int rank = 0;
  int size = 1;

  bool whole() const { return size == 1; }
  int64_t Begin(int64_t total) const { return total * rank / size; }
  int64_t End(int64_t total) const { return total * (rank + 1) / size; }
  int64_t Width(int64_t total) const { return End(total) - Begin(total); }
  // For fewer key-value heads than ranks: each rank has the one head that its query heads use, so
  // neighbouring ranks share a head.
  int64_t KvBegin(int64_t heads) const { return Begin(heads); }
  int64_t KvWidth(int64_t heads) const { return heads < size ? 1 : Width(heads); }
};

// Number of key-value heads that all ranks hold together.
inline int64_t HeldKvHeads(int64_t heads, int64_t num_ranks) {
  return heads < num_ranks ? num_ranks : heads;
}

// INVALID_ARGUMENT naming tensor_parallel, unless all of these hold: `num_ranks` divides the heads
// and the FFN sizes of every stack; it divides the key-value heads or is a multiple of them; every
// rank has columns of the logits.
absl::Status CheckDivides(const TransformerSpec& spec, int32_t num_ranks);

// The spec with the shard's heads, FFN size and logits columns. Hidden states, positions and token
// ids are not split. REQUIRES: CheckDivides.
TransformerSpec SpecOf(const TransformerSpec& spec, const Shard& shard);

}  // namespace beamline
