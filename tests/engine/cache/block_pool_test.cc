#include "engine/cache/block_pool.h"

#include <gtest/gtest.h>

namespace beamline::block_pool_test {
namespace {

TEST(BlockPoolTest, ReusesTheLongestFreeBlockFirst) {
  BlockPool pool(3);
  const int32_t a = pool.Allocate(), b = pool.Allocate(), c = pool.Allocate();
  EXPECT_EQ(pool.num_free(), 0);
  pool.Release(b);
  pool.Release(a);
  EXPECT_EQ(pool.Allocate(), b);
  EXPECT_EQ(pool.Allocate(), a);
  EXPECT_EQ(pool.num_used(), 3);
  EXPECT_FALSE(pool.shared(c));
}

TEST(BlockPoolTest, ReusesBlocksOfNoUseBeforeAllOthers) {
  BlockPool pool(4);
  const int32_t a = pool.Allocate(), b = pool.Allocate();
  pool.Release(b);
  pool.Release(a);
  pool.ReuseFirst(b);  // behind two that were never used and before a
  EXPECT_TRUE(pool.Verify({}).ok());
  pool.ReuseFirst(a);
  pool.ReuseFirst(a);
  EXPECT_TRUE(pool.Verify({}).ok());
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.Allocate(), a);
  EXPECT_EQ(pool.Allocate(), b);
  pool.Allocate();
  const int32_t last = pool.Allocate();
  pool.Release(last);
  pool.ReuseFirst(last);  // the only one
  EXPECT_EQ(pool.Allocate(), last);
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPoolTest, FreesASharedBlockWithItsLastHolder) {
  BlockPool pool(2);
  BlockTable first = {pool.Allocate(), pool.Allocate()};
  BlockTable second = first;
  for (const int32_t block : second) pool.AddReference(block);
  EXPECT_TRUE(pool.shared(first[0]));
  EXPECT_TRUE(pool.Verify({&first, &second}).ok());
  pool.ReleaseAll(first);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.Verify({&first, &second}).ok());
  pool.ReleaseAll(second);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPoolTest, DroppedBlocksAreFreeWhenTheyAreFreed) {
  BlockPool pool(3);
  BlockTable first = {pool.Allocate(), pool.Allocate(), pool.Allocate()};
  const BlockTable blocks = first;
  BlockTable second = {blocks[0]};
  pool.AddReference(blocks[0]);
  std::vector<int32_t> unheld;
  pool.DropAll(first, unheld);
  EXPECT_EQ(unheld, (std::vector<int32_t>{blocks[2], blocks[1]}));
  EXPECT_EQ(pool.num_free(), 0);
  pool.Free(unheld);
  EXPECT_TRUE(pool.Verify({&first, &second}).ok());
  EXPECT_EQ(pool.Allocate(), blocks[2]);
  EXPECT_EQ(pool.Allocate(), blocks[1]);
}

TEST(BlockPoolTest, TakesAFreeBlockBackFromTheMiddleOfTheList) {
  BlockPool pool(3);
  BlockTable table = {pool.Allocate(), pool.Allocate(), pool.Allocate()};
  const BlockTable blocks = table;
  pool.ReleaseAll(table);
  pool.AddReference(blocks[1]);
  EXPECT_EQ(pool.num_free(), 2);
  BlockTable held = {blocks[1]};
  EXPECT_TRUE(pool.Verify({&held}).ok());
  EXPECT_NE(pool.Allocate(), blocks[1]);
  EXPECT_NE(pool.Allocate(), blocks[1]);
}

TEST(BlockPoolTest, VerifyFindsAReferenceThatNoTableHolds) {
  BlockPool pool(2);
  BlockTable table = {pool.Allocate()};
  EXPECT_TRUE(pool.Verify({&table}).ok());
  pool.AddReference(table[0]);
  EXPECT_EQ(pool.Verify({&table}).code(), absl::StatusCode::kInternal);
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsAProgrammerError) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Release(0), "CHECK failed");
}

}  // namespace
}  // namespace beamline::block_pool_test
