#include "engine/scheduling/group_cache.h"

#include <utility>

#include "kernels/check.h"

namespace beamline {

int32_t GroupCache::Allocate(Group& group) {
  ++group.held_blocks;
  return pool_.Allocate();
}

void GroupCache::Release(Group& group, BlockTable& table) {
  const int32_t free_before = pool_.num_free();
  pool_.ReleaseAll(table);
  group.held_blocks -= pool_.num_free() - free_before;
}

void GroupCache::AllocateMemory(Group& group) {
  BEAMLINE_CHECK(group.memory.empty());
  const auto length = static_cast<int32_t>(group.encoder_ids.size());
  for (int32_t position = 0; position < length; position += block_size_) {
    group.memory.push_back(Allocate(group));
  }
}

bool GroupCache::TailIsShared(const Sequence& row) const {
  const size_t index = row.num_computed / block_size_;
  return index < row.blocks.size() && pool_.shared(row.blocks[index]);
}

void GroupCache::Grow(Group& group, Sequence& row, int32_t count, std::vector<BlockCopy>& copies) {
  if (TailIsShared(row)) {
    int32_t& tail = row.blocks[row.num_computed / block_size_];
    const int32_t copy = Allocate(group);
    copies.push_back({tail, copy});
    pool_.Release(tail);  // others hold it, so it stays in use until the copy is made
    tail = copy;
  }
  const int32_t end = row.num_computed + count;
  while (static_cast<int32_t>(row.blocks.size()) * block_size_ < end) {
    row.blocks.push_back(Allocate(group));
  }
}

void GroupCache::Fork(Group& group, std::span<const Continuation> continuations) {
  std::vector<int32_t> children(group.rows.size(), 0);
  for (const Continuation& next : continuations) ++children[next.parent];

  std::vector<Sequence> rows;
  rows.reserve(continuations.size());
  for (const Continuation& next : continuations) {
    Sequence& parent = group.rows[next.parent];
    if (--children[next.parent] == 0) {
      rows.push_back(std::move(parent));  // the last child takes the parent's place
      parent.blocks.clear();
    } else {
      for (const int32_t block : parent.blocks) pool_.AddReference(block);
      rows.push_back(parent);
    }
    rows.back().tokens.push_back(next.token);
  }
  for (Sequence& childless : group.rows) Release(group, childless.blocks);
  group.rows = std::move(rows);
}

void GroupCache::Release(Group& group) {
  Release(group, group.memory);
  for (Sequence& row : group.rows) {
    Release(group, row.blocks);
    row.num_computed = 0;
  }
}

}  // namespace beamline
