// The cache blocks of groups: growing, forking, copying on write, sharing beginnings, giving back.
#pragma once

#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_index.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/planner.h"
#include "kernels/beam_tails.h"

namespace beamline {

// A row of a group whose last token was unknown.
struct KnownRow {
  int32_t row = 0;
  int32_t token = 0;
};

class GroupCache {
 public:
  // Without `share_prefixes`, requests never share blocks (the sequences of one request always do).
  // original_positions: RotarySpec's.
  GroupCache(int32_t num_blocks, int32_t block_size, bool share_prefixes,
             int32_t original_positions = 0);

  // Where positions of a sequence of `length` tokens have other angles than those that the group's
  // keys were computed with: gives back what it holds, so that all is computed again.
  void FollowLength(Group& group, int32_t length);
  // Whether a group of `length` tokens would give back what it holds.
  bool ChangesAngles(const Group& group, int32_t length) const {
    return FirstPosition(length) != group.first_position;
  }

  // The blocks that already hold the beginning of a row that has none yet.
  struct Prefix {
    int32_t num_blocks = 0;
    int32_t num_free_blocks =
        0;  // of them, those that nobody holds: taking them uses up free blocks
  };
  Prefix FindPrefix(const Group& group, Sequence& row) const;
  // Takes what FindPrefix finds; the row's positions in these blocks count as computed.
  void AdoptPrefix(const Group& group, Sequence& row);

  // Blocks for the encoder's keys and values. REQUIRES: the planner saw that they are free.
  void AllocateMemory(Group& group);
  // Makes positions num_computed .. num_computed + count - 1 of a row writable and counts them as
  // computed: allocates, and replaces a shared block by a copy, which is added to `copies` (to be
  // made before the step writes). Full blocks can be found as a prefix from the next step on.
  void Grow(const Group& group, Sequence& row, int32_t count, std::vector<BlockCopy>& copies);
  // What one thread works with when rows fork, are put in order or end.
  struct Workspace {
    std::vector<int32_t> parents, children, last_blocks;
    std::vector<BeamTail> tails;
    std::vector<Sequence> next_rows, childless;
    std::vector<int32_t> unheld;  // blocks that nobody holds any more, until Free
  };
  // Whether all of a group's blocks are nobody else's: its rows may change beside other groups',
  // each thread with a workspace of its own.
  bool IsApart(const Group& group) const { return !share_prefixes_ || !group.encoder_ids.empty(); }
  // The group's rows become those of `continuations`: blocks are shared, none is copied.
  void Fork(Group& group, std::span<const Continuation> continuations, Workspace& workspace);
  // As Scheduler's.
  void Reorder(Group& group, std::span<const int32_t> parents, Workspace& workspace);
  void Settle(Group& group, std::span<const KnownRow> rows, Workspace& workspace);
  // Frees what is unheld. By one thread, before the next Grow.
  void Free(Workspace& workspace);
  // Gives back everything; the rows' tokens stay, to be computed again.
  void Release(Group& group);
  // No block's content is to be trusted any more.
  void ForgetPrefixes() { index_.Clear(); }

  // Of a row that runs, as the planner sees it.
  RowState StateOf(const Sequence& row) const;
  // Whether writing the row's next position would copy a block.
  bool TailIsShared(const Sequence& row) const;
  int32_t Slot(const BlockTable& table, int32_t position) const {
    return table[position / block_size_] * block_size_ + position % block_size_;
  }
  int32_t block_size() const { return block_size_; }
  const BlockPool& pool() const { return pool_; }

 private:
  int32_t FirstPosition(int32_t length) const {
    return length > original_positions_ ? original_positions_ : 0;
  }
  int32_t Allocate();
  // The group's rows become copies of those that `parents` names; blocks are shared.
  void Descend(Group& group, std::span<const int32_t> parents, Workspace& workspace);
  // Drops and appends the tokens of `next`, after its blocks are settled.
  void Extend(Sequence& row, const Continuation& next, Workspace& workspace);
  // The key of the row's block `index`, computed once. REQUIRES: the row has tokens for all of the
  // block.
  const BlockKey& Key(const Group& group, Sequence& row, int32_t index) const;
  void Index(const Group& group, Sequence& row, int32_t first_block, int32_t end_block);
  void Release(BlockTable& table);
  void ReuseUnknown(int32_t block);

  BlockPool pool_;
  PrefixIndex index_;
  int32_t block_size_;
  bool share_prefixes_;
  int32_t original_positions_;
};

}  // namespace beamline
