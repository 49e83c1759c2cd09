// Who computes what of a sum over ranks, and where staging memory lies, without a GPU.
#include "kernels/cuda/communication/peer_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/test_seed.h"

namespace beamline::cuda::peer_plan_test {
namespace {

// Every vector is one block's, no block is without, and what a call sends has room.
void ExpectCovers(PeerAlgorithm algorithm, int num_ranks, int most_blocks, int64_t num_bytes) {
  const PeerPlan plan = PlanPeerSum(algorithm, num_ranks, most_blocks, num_bytes);
  SCOPED_TRACE(testing::Message() << num_ranks << " ranks, " << num_bytes << " bytes in at most "
                                  << most_blocks << " blocks, one-shot "
                                  << (algorithm == PeerAlgorithm::kOneShot));
  EXPECT_EQ(plan.algorithm, algorithm);
  EXPECT_GE(plan.num_vecs * kPeerVecBytes, num_bytes);
  EXPECT_LT((plan.num_vecs - 1) * kPeerVecBytes, num_bytes);
  EXPECT_GE(plan.blocks, 1);
  EXPECT_LE(plan.blocks, most_blocks);
  EXPECT_GE(plan.blocks * plan.vecs_per_block, plan.num_vecs);
  EXPECT_LT((plan.blocks - 1) * plan.vecs_per_block, plan.num_vecs);
  EXPECT_EQ(plan.threads % 32, 0);
  // Threads that tell the others and wait for them.
  EXPECT_GE(plan.threads, num_ranks);
  EXPECT_LE(plan.threads, algorithm == PeerAlgorithm::kOneShot ? 256 : 512);
  if (algorithm == PeerAlgorithm::kOneShot) {
    EXPECT_LE(plan.num_vecs, PeerLayout(num_ranks).packet_vecs);
  }
}

TEST(PeerPlanTest, EveryVectorIsOneBlocks) {
  std::mt19937 random(TestSeed());
  for (int num_ranks = kLeastPeerRanks; num_ranks <= kMostPeerRanks; ++num_ranks) {
    std::vector<int64_t> sizes = {1, 2, 15, 16, 17, 8191, 8192, 8193, int64_t{1} << 26};
    for (int i = 0; i < 300; ++i) {
      sizes.push_back(1 + (random() >> std::uniform_int_distribution<int>(5, 31)(random)));
    }
    for (const int64_t num_bytes : sizes) {
      for (const int most_blocks : {1, 3, 16, kMostPeerBlocks}) {
        ExpectCovers(PeerAlgorithm::kTwoShot, num_ranks, most_blocks, num_bytes);
        if (FitsOneShot(num_ranks, num_bytes)) {
          ExpectCovers(PeerAlgorithm::kOneShot, num_ranks, most_blocks, num_bytes);
        }
      }
    }
  }
}

TEST(PeerPlanTest, WhatIsChosenForOneShotFits) {
  for (int num_ranks = kLeastPeerRanks; num_ranks <= kMostPeerRanks; ++num_ranks) {
    int64_t longest = 0;
    for (int64_t num_bytes = 1; num_bytes <= MostPeerBytes(num_ranks);
         num_bytes += std::max<int64_t>(1, num_bytes / 50)) {
      if (ChoosePeerAlgorithm(num_ranks, num_bytes) != PeerAlgorithm::kOneShot) continue;
      EXPECT_TRUE(FitsOneShot(num_ranks, num_bytes)) << num_ranks << " ranks, " << num_bytes;
      longest = num_bytes;
    }
    // A row of a large model, at least.
    EXPECT_GE(longest, 16 << 10) << num_ranks << " ranks";
  }
}

TEST(PeerPlanTest, NothingIsCutAndNothingOverlaps) {
  for (int num_ranks = kLeastPeerRanks; num_ranks <= kMostPeerRanks; ++num_ranks) {
    const PeerLayout layout(num_ranks);
    const auto ranks = static_cast<size_t>(num_ranks);
    const auto packet_vecs = static_cast<size_t>(layout.packet_vecs);
    const size_t slices = kMostPeerBlocks * ranks * static_cast<size_t>(layout.slice_vecs) * 16;
    EXPECT_GE(layout.flags, layout.state + 24);
    EXPECT_GE(layout.packets, layout.flags + size_t{kMostPeerBlocks} * 2 * kMostPeerRanks * 8);
    EXPECT_GE(layout.terms, layout.packets + 2 * ranks * packet_vecs * 2 * 16);
    EXPECT_GE(layout.sums, layout.terms + slices);
    EXPECT_GE(layout.num_bytes, layout.sums + slices);
    EXPECT_LE(layout.num_bytes, size_t{32} << 20);
    for (const size_t offset : {layout.flags, layout.packets, layout.terms, layout.sums}) {
      EXPECT_EQ(offset % 256, 0u);
    }
    EXPECT_TRUE(FitsOneShot(num_ranks, layout.packet_vecs * kPeerVecBytes));
    EXPECT_FALSE(FitsOneShot(num_ranks, layout.packet_vecs * kPeerVecBytes + 1));
  }
}

}  // namespace
}  // namespace beamline::cuda::peer_plan_test
