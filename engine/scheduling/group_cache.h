// The cache blocks of groups: growth, forks, copy on write, shared prefixes, release.
#pragma once

#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_index.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/planner.h"
#include "kernels/beam_tails.h"

namespace beamline {

// The value of a row's last token, which was unknown before.
struct KnownRow {
  int32_t row = 0;
  int32_t token = 0;
};

class GroupCache {
 public:
  // Without `share_prefixes`, requests never share blocks (sequences of one request always do).
  // original_positions: as in RotarySpec.
  GroupCache(int32_t num_blocks, int32_t block_size, bool share_prefixes,
             int32_t original_positions = 0);

  // If a sequence of `length` tokens uses other rotary angles than the group's cached keys:
  // releases the group's blocks, so that everything is computed again.
  void FollowLength(Group& group, int32_t length);
  // Whether FollowLength would release the blocks at `length` tokens.
  bool ChangesAngles(const Group& group, int32_t length) const {
    return FirstPosition(length) != group.first_position;
  }

  // Cached blocks with a prefix of a row that has no blocks yet.
  struct Prefix {
    int32_t num_blocks = 0;
    int32_t num_free_blocks = 0;  // of these, unreferenced blocks: taking them uses up free blocks
  };
  Prefix FindPrefix(const Group& group, Sequence& row) const;
  // Takes the blocks that FindPrefix finds; the row's positions in them count as computed.
  void AdoptPrefix(const Group& group, Sequence& row);

  // Allocates blocks for the encoder's keys and values. REQUIRES: the planner checked that they are
  // free.
  void AllocateMemory(Group& group);
  // Makes positions num_computed .. num_computed + count - 1 of a row writable and counts them as
  // computed. Allocates blocks, and replaces a shared block by a copy. The copy is added to
  // `copies` and must be made before the step writes. Full blocks can be found as a prefix from the
  // next step on.
  void Grow(const Group& group, Sequence& row, int32_t count, std::vector<BlockCopy>& copies);
  // Scratch memory of one thread for forking, reordering and ending rows.
  struct Workspace {
    std::vector<int32_t> parents, children, last_blocks;
    std::vector<BeamTail> tails;
    std::vector<Sequence> next_rows, childless;
    std::vector<int32_t> unheld;  // blocks without references, until Free
  };
  // Whether the group shares no block with other groups. Then several threads may change the rows
  // of such groups in parallel, each with its own workspace.
  bool IsApart(const Group& group) const { return !share_prefixes_ || !group.encoder_ids.empty(); }
  // Replaces the group's rows by those of `continuations`. Blocks are shared, not copied.
  void Fork(Group& group, std::span<const Continuation> continuations, Workspace& workspace);
  // As in Scheduler.
  void Reorder(Group& group, std::span<const int32_t> parents, Workspace& workspace);
  void Settle(Group& group, std::span<const KnownRow> rows, Workspace& workspace);
  // Frees the unheld blocks. Called by one thread, before the next Grow.
  void Free(Workspace& workspace);
  // Releases all blocks; the rows keep their tokens, to be computed again.
  void Release(Group& group);
  // Forgets all cached content, for example after a failed step.
  void ForgetPrefixes() { index_.Clear(); }

  // The planner's view of a running row.
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
  // Replaces the group's rows by copies of the rows in `parents`; blocks are shared.
  void Descend(Group& group, std::span<const int32_t> parents, Workspace& workspace);
  // Drops and appends the tokens of `next`, after the row's blocks are settled.
  void Extend(Sequence& row, const Continuation& next, Workspace& workspace);
  // The key of the row's block `index`; computed once. REQUIRES: the row has tokens for the whole
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
