// The cache blocks of groups: growing, forking, copying on write, giving back.
#pragma once

#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/scheduling/group.h"

namespace beamline {

class GroupCache {
 public:
  GroupCache(int32_t num_blocks, int32_t block_size) : pool_(num_blocks), block_size_(block_size) {}

  // Blocks for the encoder's keys and values. REQUIRES: the planner saw that they are free.
  void AllocateMemory(Group& group);
  // Makes positions num_computed .. num_computed + count - 1 of a row writable: allocates, and
  // replaces a shared block by a copy, which is added to `copies` (to be made before the step
  // writes).
  void Grow(Group& group, Sequence& row, int32_t count, std::vector<BlockCopy>& copies);
  // The group's rows become those of `continuations`: blocks are shared, none is copied.
  void Fork(Group& group, std::span<const Continuation> continuations);
  // Gives back everything; the rows' tokens stay, to be computed again.
  void Release(Group& group);

  // Whether writing the row's next position would copy a block.
  bool TailIsShared(const Sequence& row) const;
  int32_t Slot(const BlockTable& table, int32_t position) const {
    return table[position / block_size_] * block_size_ + position % block_size_;
  }
  const BlockPool& pool() const { return pool_; }
  int32_t block_size() const { return block_size_; }

 private:
  int32_t Allocate(Group& group);
  void Release(Group& group, BlockTable& table);

  BlockPool pool_;
  int32_t block_size_;
};

}  // namespace beamline
