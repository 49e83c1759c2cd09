#include "engine/scheduling/group_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace beamline::group_cache_test {
namespace {

constexpr int32_t kNumBlocks = 16;
constexpr int32_t kBlockSize = 4;

// A group of one row of so many tokens, all in the cache.
Group Cached(GroupCache& cache, int32_t num_tokens, int32_t first_token) {
  Group group;
  group.rows.resize(1);
  group.rows[0].tokens.resize(num_tokens);
  std::iota(group.rows[0].tokens.begin(), group.rows[0].tokens.end(), first_token);
  std::vector<BlockCopy> copies;
  cache.Grow(group, group.rows[0], num_tokens, copies);
  return group;
}

TEST(GroupCacheTest, ReusesTheBlocksThatNoPromptFindsFirst) {
  GroupCache cache(kNumBlocks, kBlockSize, /*share_prefixes=*/true);
  Group first = Cached(cache, 10, 100);
  const BlockTable blocks = first.rows[0].blocks;
  ASSERT_EQ(blocks.size(), 3u);
  cache.Release(first);
  Group second = Cached(cache, 5, 200);
  EXPECT_EQ(second.rows[0].blocks[0], blocks[2]);  // was not full
  // The full ones are still found.
  Group again;
  again.rows.resize(1);
  again.rows[0].tokens.resize(10);
  std::iota(again.rows[0].tokens.begin(), again.rows[0].tokens.end(), 100);
  cache.AdoptPrefix(again, again.rows[0]);
  EXPECT_EQ(again.rows[0].blocks, BlockTable({blocks[0], blocks[1]}));
}

TEST(GroupCacheTest, StaysInFewBlocksWhereNothingIsShared) {
  GroupCache cache(kNumBlocks, kBlockSize, /*share_prefixes=*/false);
  for (int32_t i = 0; i < 2 * kNumBlocks; ++i) {
    Group group = Cached(cache, 10, 100 * i);
    group.encoder_ids.assign(6, 7);
    cache.AllocateMemory(group);
    for (const BlockTable& table : {group.rows[0].blocks, group.memory}) {
      for (const int32_t block : table) EXPECT_LT(block, 5);
    }
    cache.Release(group);
  }
}

}  // namespace
}  // namespace beamline::group_cache_test
