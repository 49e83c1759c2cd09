// The blocks of the KV cache: their reference counts and the free list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// The blocks of one sequence, in order: entry i holds positions [i * block_size, (i + 1) *
// block_size).
using BlockTable = std::vector<int32_t>;

// Reference-counted blocks 0 .. num_blocks - 1. A block without references is free. Free blocks are
// reused in the order in which they became free, except that blocks with useless content go first.
// Every call is O(1) per block. Not thread safe: a replica's thread owns its pool.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return num_free_; }
  int32_t num_used() const { return num_blocks() - num_free_; }

  // Returns a block with one reference. REQUIRES: num_free() > 0.
  int32_t Allocate();
  // Adds a reference. A free block, which still has its last content, is taken back into use.
  void AddReference(int32_t block);
  // Removes a reference; removing the last one frees the block. REQUIRES: the block is in use.
  void Release(int32_t block);
  // As Release, but a block that loses its last reference goes to `unheld` and becomes free with
  // Free. Drop, and AddReference of a block in use, touch only the block's count. So threads may
  // call them in parallel for blocks that no other thread's groups hold.
  void Drop(int32_t block, std::vector<int32_t>& unheld);
  // Drops every block of the table and empties it.
  void DropAll(BlockTable& table, std::vector<int32_t>& unheld);
  void Free(std::span<const int32_t> unheld);
  // Marks a block that will not be taken back into use: it is reused before all others, while
  // processor caches still have it. REQUIRES: the block is free.
  void ReuseFirst(int32_t block);
  // Releases every block of the table and empties it.
  void ReleaseAll(BlockTable& table);

  bool shared(int32_t block) const { return references_[block] > 1; }
  int32_t references(int32_t block) const { return references_[block]; }

  // Recounts the references in `tables` and compares. INTERNAL names the first block with a wrong
  // count or a wrong place in the free list. O(blocks + entries); for tests and debugging.
  absl::Status Verify(const std::vector<const BlockTable*>& tables) const;

 private:
  static constexpr int32_t kNone = -1;

  void PushFree(int32_t block);
  void RemoveFree(int32_t block);

  std::vector<int32_t> references_;
  // The free list, linked by block numbers, oldest first.
  std::vector<int32_t> next_, previous_;
  int32_t oldest_free_ = kNone;
  int32_t newest_free_ = kNone;
  int32_t num_free_ = 0;
};

}  // namespace beamline
