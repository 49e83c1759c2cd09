#include "engine/cache/block_pool.h"

#include "base/check.h"
#include "fmt/format.h"

namespace beamline {

BlockPool::BlockPool(int32_t num_blocks)
    : references_(num_blocks, 0), next_(num_blocks, kNone), previous_(num_blocks, kNone) {
  for (int32_t block = 0; block < num_blocks; ++block) PushFree(block);
}

void BlockPool::PushFree(int32_t block) {
  previous_[block] = newest_free_;
  next_[block] = kNone;
  (newest_free_ == kNone ? oldest_free_ : next_[newest_free_]) = block;
  newest_free_ = block;
  ++num_free_;
}

void BlockPool::RemoveFree(int32_t block) {
  (previous_[block] == kNone ? oldest_free_ : next_[previous_[block]]) = next_[block];
  (next_[block] == kNone ? newest_free_ : previous_[next_[block]]) = previous_[block];
  --num_free_;
}

int32_t BlockPool::Allocate() {
  BEAMLINE_CHECK(num_free_ > 0);
  const int32_t block = oldest_free_;
  RemoveFree(block);
  references_[block] = 1;
  return block;
}

void BlockPool::AddReference(int32_t block) {
  if (references_[block]++ == 0) RemoveFree(block);
}

void BlockPool::Release(int32_t block) {
  BEAMLINE_CHECK(references_[block] > 0);
  if (--references_[block] == 0) PushFree(block);
}

void BlockPool::Drop(int32_t block, std::vector<int32_t>& unheld) {
  BEAMLINE_CHECK(references_[block] > 0);
  if (--references_[block] == 0) unheld.push_back(block);
}

void BlockPool::DropAll(BlockTable& table, std::vector<int32_t>& unheld) {
  // Last block first, as in ReleaseAll.
  for (auto block = table.rbegin(); block != table.rend(); ++block) Drop(*block, unheld);
  table.clear();
}

void BlockPool::Free(std::span<const int32_t> unheld) {
  for (const int32_t block : unheld) PushFree(block);
}

void BlockPool::ReuseFirst(int32_t block) {
  BEAMLINE_CHECK(references_[block] == 0);
  if (block == oldest_free_) return;
  RemoveFree(block);
  previous_[block] = kNone;
  next_[block] = oldest_free_;
  previous_[oldest_free_] = block;
  oldest_free_ = block;
  ++num_free_;
}

void BlockPool::ReleaseAll(BlockTable& table) {
  // Last block first: the blocks of a shared prefix should stay cached longest.
  for (auto block = table.rbegin(); block != table.rend(); ++block) Release(*block);
  table.clear();
}

absl::Status BlockPool::Verify(const std::vector<const BlockTable*>& tables) const {
  std::vector<int32_t> expected(references_.size(), 0);
  for (const BlockTable* table : tables) {
    for (const int32_t block : *table) ++expected[block];
  }
  for (int32_t block = 0; block < num_blocks(); ++block) {
    if (references_[block] != expected[block]) {
      return absl::InternalError(fmt::format("block {} counts {} references; {} tables hold it",
                                             block, references_[block], expected[block]));
    }
  }
  int32_t listed = 0;
  int32_t previous = kNone;
  for (int32_t block = oldest_free_; block != kNone && listed <= num_blocks();
       block = next_[block]) {
    if (references_[block] != 0 || previous_[block] != previous) {
      return absl::InternalError(fmt::format("block {} is wrongly in the free list", block));
    }
    previous = block;
    ++listed;
  }
  int32_t unreferenced = 0;
  for (const int32_t count : references_) unreferenced += count == 0 ? 1 : 0;
  if (listed != num_free_ || listed != unreferenced) {
    return absl::InternalError(
        fmt::format("the free list has {} blocks; counted {}, unreferenced {}", listed, num_free_,
                    unreferenced));
  }
  return absl::OkStatus();
}

}  // namespace beamline
