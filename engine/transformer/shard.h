// The part of a transformer that one rank holds, in the split of Megatron-LM (arXiv:1909.08053).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/transformer/spec.h"

namespace beamline {

// The most ranks that a model is split over.
inline constexpr int32_t kMostRanks = 8;

// Rank `rank` of `size`. Of what is split it has the range Begin .. End, of equal sizes where the
// total divides, else of sizes that differ by one.
struct Shard {
  int rank = 0;
  int size = 1;

  bool whole() const { return size == 1; }
  int64_t Begin(int64_t total) const { return total * rank / size; }
  int64_t End(int64_t total) const { return total * (rank + 1) / size; }
  int64_t Width(int64_t total) const { return End(total) - Begin(total); }
  // Of key/value heads, of which there are fewer than ranks: a rank has the one that its query
  // heads look at, and the next ranks the same.
  int64_t KvBegin(int64_t heads) const { return Begin(heads); }
  int64_t KvWidth(int64_t heads) const { return heads < size ? 1 : Width(heads); }
};

// Of all ranks together: how many key/value heads they hold of so many.
inline int64_t HeldKvHeads(int64_t heads, int64_t num_ranks) {
  return heads < num_ranks ? num_ranks : heads;
}

// INVALID_ARGUMENT naming tensor_parallel, unless `num_ranks` divides the heads and the inner sizes
// of every stack, of key/value heads divides them or is a multiple of them, and no rank is left
// without columns of the logits.
absl::Status CheckDivides(const TransformerSpec& spec, int32_t num_ranks);

// The spec with the heads, the inner size and the columns of the logits that the shard has.
// Hidden states, positions and the ids of tokens are those of the whole. REQUIRES: CheckDivides.
TransformerSpec SpecOf(const TransformerSpec& spec, const Shard& shard);

}  // namespace beamline
