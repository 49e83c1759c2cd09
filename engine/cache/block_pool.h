// The KV cache's blocks: who holds each of them, and which are free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// Positions of one sequence, in order: entry i is the block of positions [i * block_size, (i + 1) *
// block_size).
using BlockTable = std::vector<int32_t>;

// Reference-counted blocks 0 .. num_blocks - 1. A block is free when nobody refers to it; free
// blocks are reused in the order in which they became free, but first those whose content is of no
// use. Every call is O(1). Not thread safe: a replica's thread owns its pool.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t num_used() const { return num_blocks() - num_free_; }

  // A block with one reference. REQUIRES: num_free() > 0.
  int32_t Allocate();
  // One more holder. A free block, whose content is still what its last holder left, is taken back
  // into use.
  void AddReference(int32_t block);
  // One holder fewer; the last one frees the block. REQUIRES: the block is in use.
  void Release(int32_t block);
  // As Release, but a block that nobody holds any more goes to `unheld`, and is free with Free.
  // Like AddReference of a block in use it touches nothing but the block's count: who holds blocks
  // that are nobody else's may do both beside others' threads.
  void Drop(int32_t block, std::vector<int32_t>& unheld);
  // Drops every block of the table and empties it.
  void DropAll(BlockTable& table, std::vector<int32_t>& unheld);
  void Free(std::span<const int32_t> unheld);
  // Nobody will take the block back into use: it is reused before all others, while caches hold it.
  // REQUIRES: the block is free.
  void ReuseFirst(int32_t block);
  // Releases every block of the table and empties it.
  void ReleaseAll(BlockTable& table);

  bool shared(int32_t block) const { return references_[block] > 1; }
  int32_t references(int32_t block) const { return references_[block]; }

  // Recounts the references that `tables` hold and compares: INTERNAL naming the first block whose
  // count is wrong, or whose place in the free list contradicts it. O(blocks + entries), for tests
  // and debugging.
  absl::Status Verify(const std::vector<const BlockTable*>& tables) const;

 private:
  static constexpr int32_t kNone = -1;

  void PushFree(int32_t block);
  void RemoveFree(int32_t block);

  std::vector<int32_t> references_;
  // The free list, linked through the blocks themselves, oldest first.
  std::vector<int32_t> next_, previous_;
  int32_t oldest_free_ = kNone;
  int32_t newest_free_ = kNone;
  int32_t num_free_ = 0;
};

}  // namespace beamline
