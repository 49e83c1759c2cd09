#include "engine/scheduling/group_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace beamline {

GroupCache::GroupCache(int32_t num_blocks, int32_t block_size, bool share_prefixes,
                       int32_t original_positions)
    : pool_(num_blocks),
      index_(num_blocks),
      block_size_(block_size),
      share_prefixes_(share_prefixes),
      original_positions_(original_positions) {}

void GroupCache::FollowLength(Group& group, int32_t length) {
  if (!ChangesAngles(group, length)) return;
  group.first_position = FirstPosition(length);
  Release(group);
  for (Sequence& row : group.rows) row.keys.clear();
}

int32_t GroupCache::Allocate() {
  const int32_t block = pool_.Allocate();
  index_.Erase(block);
  return block;
}

const BlockKey& GroupCache::Key(const Group& group, Sequence& row, int32_t index) const {
  while (static_cast<int32_t>(row.keys.size()) <= index) {
    const size_t block = row.keys.size();
    const std::span<const int32_t> tokens(row.tokens.data() + block * block_size_, block_size_);
    const BlockKey parent =
        block == 0 ? index_.Root(group.cache_salt, group.first_position) : row.keys.back();
    row.keys.push_back(index_.Next(parent, tokens));
  }
  return row.keys[index];
}

GroupCache::Prefix GroupCache::FindPrefix(const Group& group, Sequence& row) const {
  Prefix prefix;
  // A decoder's keys and values depend on its encoder's input, so they are not shared.
  if (!share_prefixes_ || !group.encoder_ids.empty()) return prefix;
  // The last tokens are always computed, because their logits are needed.
  const int32_t candidates =
      (static_cast<int32_t>(row.tokens.size()) - row.num_logits) / block_size_;
  for (; prefix.num_blocks < candidates; ++prefix.num_blocks) {
    const auto block = index_.Find(Key(group, row, prefix.num_blocks));
    if (!block.has_value()) break;
    if (pool_.references(*block) == 0) ++prefix.num_free_blocks;
  }
  return prefix;
}

void GroupCache::AdoptPrefix(const Group& group, Sequence& row) {
  BEAMLINE_CHECK(row.blocks.empty());
  const int32_t num_blocks = FindPrefix(group, row).num_blocks;
  for (int32_t i = 0; i < num_blocks; ++i) {
    row.blocks.push_back(*index_.Find(row.keys[i]));
    pool_.AddReference(row.blocks.back());
  }
  row.num_computed = num_blocks * block_size_;
}

void GroupCache::AllocateMemory(Group& group) {
  BEAMLINE_CHECK(group.memory.empty());
  const auto length = static_cast<int32_t>(group.encoder_ids.size());
  for (int32_t position = 0; position < length; position += block_size_) {
    group.memory.push_back(Allocate());
  }
}

RowState GroupCache::StateOf(const Sequence& row) const {
  RowState state;
  state.num_tokens = static_cast<int32_t>(row.tokens.size());
  state.num_computed = row.num_computed;
  state.num_blocks = static_cast<int32_t>(row.blocks.size());
  state.num_logits = row.num_logits;
  state.shared_tail = TailIsShared(row);
  return state;
}

bool GroupCache::TailIsShared(const Sequence& row) const {
  const size_t index = row.num_computed / block_size_;
  return index < row.blocks.size() && pool_.shared(row.blocks[index]);
}

void GroupCache::Grow(const Group& group, Sequence& row, int32_t count,
                      std::vector<BlockCopy>& copies) {
  if (TailIsShared(row)) {
    int32_t& tail = row.blocks[row.num_computed / block_size_];
    const int32_t copy = Allocate();
    copies.push_back({tail, copy});
    pool_.Release(tail);  // others hold it, so it stays in use until the copy is made
    tail = copy;
  }
  const int32_t end = row.num_computed + count;
  while (static_cast<int32_t>(row.blocks.size()) * block_size_ < end) {
    row.blocks.push_back(Allocate());
  }
  const int32_t first_block = row.num_computed / block_size_;
  row.num_computed = end;
  Index(group, row, first_block, end / block_size_);
}

void GroupCache::Index(const Group& group, Sequence& row, int32_t first_block, int32_t end_block) {
  if (!share_prefixes_ || !group.encoder_ids.empty()) return;
  // A block with an unknown token has no key yet; Settle adds it.
  const auto num_known =
      static_cast<int32_t>(row.tokens.size()) - (row.tokens.back() == kUnknownToken ? 1 : 0);
  for (int32_t i = first_block; i < std::min(end_block, num_known / block_size_); ++i) {
    index_.Insert(Key(group, row, i), row.blocks[i]);
  }
}

void GroupCache::Fork(Group& group, std::span<const Continuation> continuations,
                      Workspace& workspace) {
  std::vector<int32_t>& parents = workspace.parents;
  parents.clear();
  for (const Continuation& next : continuations) parents.push_back(next.parent);
  Descend(group, parents, workspace);
  for (size_t i = 0; i < continuations.size(); ++i) {
    Extend(group.rows[i], continuations[i], workspace);
  }
}

void GroupCache::Descend(Group& group, std::span<const int32_t> parents, Workspace& workspace) {
  std::vector<Sequence>& rows = group.rows;
  const auto stays = [&](size_t row) { return parents[row] == static_cast<int32_t>(row); };
  if (parents.size() == rows.size()) {
    size_t row = 0;
    while (row < rows.size() && stays(row)) ++row;
    if (row == rows.size()) return;  // the usual case
  }
  std::vector<int32_t>& children = workspace.children;
  std::vector<Sequence>& childless = workspace.childless;
  std::vector<Sequence>& next_rows = workspace.next_rows;
  children.assign(rows.size(), 0);
  for (const int32_t parent : parents) ++children[parent];
  // Rows without children go first: further children of other rows reuse their vectors.
  childless.clear();
  for (size_t row = 0; row < rows.size(); ++row) {
    if (children[row] > 0) continue;
    pool_.DropAll(rows[row].blocks, workspace.unheld);
    childless.push_back(std::move(rows[row]));
  }
  next_rows.clear();
  for (const int32_t index : parents) {
    Sequence& parent = rows[index];
    if (--children[index] == 0) {
      next_rows.push_back(std::move(parent));  // the last child takes over the parent
      continue;
    }
    for (const int32_t block : parent.blocks) pool_.AddReference(block);
    if (childless.empty()) {
      next_rows.push_back(parent);
      continue;
    }
    childless.back() = parent;
    next_rows.push_back(std::move(childless.back()));
    childless.pop_back();
  }
  rows.swap(next_rows);
  next_rows.clear();
}

void GroupCache::Extend(Sequence& row, const Continuation& next, Workspace& workspace) {
  if (next.num_dropped > 0) {
    row.tokens.resize(row.tokens.size() - next.num_dropped);
    row.num_computed = std::min(row.num_computed, static_cast<int32_t>(row.tokens.size()));
    // Releases the blocks that have only dropped tokens. Other rows, or requests that found them as
    // a prefix, may hold them too. The block at the cut is written again, or copied if it is
    // shared.
    const size_t full_blocks = row.tokens.size() / block_size_;
    const size_t kept_blocks = full_blocks + (row.tokens.size() % block_size_ == 0 ? 0 : 1);
    for (; row.blocks.size() > kept_blocks; row.blocks.pop_back()) {
      pool_.Drop(row.blocks.back(), workspace.unheld);
    }
    if (row.blocks.size() > full_blocks) index_.Erase(row.blocks.back());
    row.keys.resize(std::min(row.keys.size(), full_blocks));
  }
  row.tokens.push_back(next.token);
  row.tokens.insert(row.tokens.end(), next.proposals.begin(), next.proposals.end());
  row.num_logits = 1 + static_cast<int32_t>(next.proposals.size());
}

void GroupCache::Reorder(Group& group, std::span<const int32_t> parents, Workspace& workspace) {
  std::vector<BeamTail>& tails = workspace.tails;
  tails.resize(parents.size());
  AssignTails(parents, tails);
  // The last block of a row stays with its index, or moves as AssignTails says.
  const int32_t position = group.rows[0].num_computed - 1;
  const bool tail_moves = position % block_size_ != 0;
  std::vector<int32_t>& last_blocks = workspace.last_blocks;
  last_blocks.clear();
  for (Sequence& row : group.rows) {
    BEAMLINE_CHECK(row.num_computed == static_cast<int32_t>(row.tokens.size()));
    BEAMLINE_CHECK(static_cast<int32_t>(row.blocks.size()) == position / block_size_ + 1);
    last_blocks.push_back(row.blocks.back());
    row.blocks.pop_back();
  }
  Descend(group, parents, workspace);
  for (size_t i = 0; i < parents.size(); ++i) {
    group.rows[i].blocks.push_back(last_blocks[tail_moves ? tails[i].blocks_of : i]);
  }
}

void GroupCache::Settle(Group& group, std::span<const KnownRow> rows, Workspace& workspace) {
  // The rows that came true keep their order.
  size_t kept = 0;
  for (const KnownRow& known : rows) {
    const auto index = static_cast<size_t>(known.row);
    BEAMLINE_CHECK(index >= kept && index < group.rows.size());
    if (index != kept) std::swap(group.rows[kept], group.rows[index]);
    Sequence& row = group.rows[kept++];
    BEAMLINE_CHECK(row.tokens.back() == kUnknownToken);
    row.tokens.back() = known.token;
    const auto length = static_cast<int32_t>(row.tokens.size());
    if (row.num_computed == length && length % block_size_ == 0) {
      Index(group, row, length / block_size_ - 1, length / block_size_);
    }
  }
  for (size_t row = kept; row < group.rows.size(); ++row) {
    pool_.DropAll(group.rows[row].blocks, workspace.unheld);
  }
  group.rows.resize(kept);
}

void GroupCache::Free(Workspace& workspace) {
  pool_.Free(workspace.unheld);
  for (const int32_t block : workspace.unheld) ReuseUnknown(block);
  workspace.unheld.clear();
}

// Some blocks cannot be found by any prompt: the last block of a text, and all blocks of a
// translator. They are reused first, while they are still in the processor's caches.
void GroupCache::ReuseUnknown(int32_t block) {
  if (pool_.references(block) == 0 && !index_.Has(block)) pool_.ReuseFirst(block);
}

void GroupCache::Release(BlockTable& table) {
  const BlockTable released = table;
  pool_.ReleaseAll(table);
  for (const int32_t block : released) ReuseUnknown(block);
}

void GroupCache::Release(Group& group) {
  Release(group.memory);
  for (Sequence& row : group.rows) {
    Release(row.blocks);
    row.num_computed = 0;
  }
}

}  // namespace beamline
