// Ranks as threads that do the same work, and the shares that they have of a model.
#include "engine/transformer/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/shard.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_communicator.h"

namespace beamline {
namespace {

using testing::HasSubstr;

std::unique_ptr<RankGroup> MakeGroup(int size) {
  std::vector<RankGroup::Rank> ranks;
  for (auto& communicator : MakeThreadCommunicators(size)) {
    ranks.push_back({MakeCpuBackend({.num_threads = 1}), std::move(communicator)});
  }
  return std::make_unique<RankGroup>(std::move(ranks));
}

TEST(RankGroupTest, EveryRankWorksOnItsOwnThread) {
  const auto group = MakeGroup(4);
  for (int call = 0; call < 50; ++call) {
    std::vector<float> x(4, 1.0f);
    std::vector<std::thread::id> threads(4);
    EXPECT_TRUE(group
                    ->Run([&](int rank) {
                      threads[rank] = std::this_thread::get_id();
                      group->communicator(rank).AllReduceSum(
                          Tensor(&x[rank], DType::kFloat32, {1}));
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_EQ(x, std::vector<float>(4, 4.0f));
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 4u);
  }
}

TEST(RankGroupTest, OneRanksErrorEndsTheOthersWaitAndStays) {
  for (int failing = 0; failing < 3; ++failing) {
    const auto group = MakeGroup(3);
    std::atomic<int> calls = 0;
    const auto work = [&](int rank) -> absl::Status {
      ++calls;
      if (rank == failing) return absl::ResourceExhaustedError("no memory");
      float x = 1.0f;
      group->communicator(rank).AllReduceSum(Tensor(&x, DType::kFloat32, {1}));
      return group->communicator(rank).status();
    };
    EXPECT_EQ(group->Run(work), absl::ResourceExhaustedError("no memory"));
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(group->Run(work), absl::ResourceExhaustedError("no memory"));
    EXPECT_EQ(calls, 3);  // nothing runs any more
    EXPECT_EQ(group->status(), absl::ResourceExhaustedError("no memory"));
  }
}

TEST(RankedBackendTest, FaultsAreThoseOfAnyRank) {
  auto group = MakeGroup(2);
  Communicator& second = group->communicator(1);
  RankedBackend backend(std::move(group));
  float value = 1.0f, read = 0.0f;
  EXPECT_TRUE(backend.Synchronize().ok());
  EXPECT_TRUE(backend.CopyToHost(&value, &read, sizeof(float)).ok());
  EXPECT_EQ(read, 1.0f);
  second.Abort(absl::InternalError("the link is down"));
  EXPECT_EQ(backend.Synchronize(), absl::UnavailableError("the link is down"));
  read = 0.0f;
  EXPECT_EQ(backend.CopyToHost(&value, &read, sizeof(float)),
            absl::UnavailableError("the link is down"));
  EXPECT_EQ(read, 0.0f);
}

TEST(RankedBackendTest, MemoryIsThatOfAllRanks) {
  auto group = MakeGroup(3);
  RankGroup& ranks = *group;
  RankedBackend backend(std::move(group));
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int rank = 0; rank < 3; ++rank) {
    buffers.push_back(*ranks.backend(rank).Allocate(1 << 16, MemoryKind::kWeights));
    std::memset(buffers.back()->data(), 1, 1 << 16);
  }
  for (const MemoryUse& use : backend.MemoryUsage()) {
    if (use.name != "weights") continue;
    EXPECT_GE(use.bytes, size_t{3} << 16);
  }
  EXPECT_THAT(backend.Description(), testing::StartsWith("3 ranks, each on "));
}

TEST(ShardTest, SharesCoverTheWholeOnce) {
  for (const int64_t total : {8, 9, 61, 50257}) {
    for (int size = 1; size <= kMostRanks; ++size) {
      int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Shard shard = {rank, size};
        EXPECT_EQ(shard.Begin(total), next);
        EXPECT_GE(shard.Width(total), total / size);
        EXPECT_LE(shard.Width(total), total / size + 1);
        next = shard.End(total);
      }
      EXPECT_EQ(next, total);
    }
  }
}

TransformerSpec Decoder(int32_t heads, int32_t kv_heads, int32_t inner) {
  TransformerSpec spec;
  spec.vocab_size = 1000;
  spec.decoder = StackSpec();
  spec.decoder->num_heads = heads;
  spec.decoder->num_kv_heads = kv_heads;
  spec.decoder->head_dim = 16;
  spec.decoder->hidden_size = 64;
  spec.decoder->feed_forward_size = inner;
  return spec;
}

TEST(ShardTest, SizesThatDoNotDivideAreNamed) {
  EXPECT_TRUE(CheckDivides(Decoder(8, 8, 64), 8).ok());
  EXPECT_EQ(CheckDivides(Decoder(6, 6, 64), 4).message(),
            "tensor_parallel is 4, which does not divide the 6 attention heads of the decoder; "
            "accepted: 1, 2");
  EXPECT_EQ(CheckDivides(Decoder(8, 2, 64), 4).message(),
            "tensor_parallel is 4, which does not divide the 2 key/value heads of the decoder; "
            "accepted: 1, 2");
  EXPECT_EQ(CheckDivides(Decoder(8, 8, 100), 8).message(),
            "tensor_parallel is 8, which does not divide the 100 inner features of the "
            "feed-forward of the decoder; accepted: 1, 2, 4");
  TransformerSpec few_tokens = Decoder(8, 8, 64);
  few_tokens.vocab_size = 3;
  EXPECT_EQ(CheckDivides(few_tokens, 4).message(),
            "tensor_parallel is 4, more than the 3 tokens of the vocabulary; accepted: 1, 2");
}

TEST(ShardTest, ARankHasItsPartOfEveryLayer) {
  TransformerSpec spec = Decoder(8, 4, 64);
  spec.vocab_size = 1001;
  const TransformerSpec part = SpecOf(spec, {3, 4});
  EXPECT_EQ(part.decoder->num_heads, 2);
  EXPECT_EQ(part.decoder->num_kv_heads, 1);
  EXPECT_EQ(part.decoder->feed_forward_size, 16);
  EXPECT_EQ(part.decoder->hidden_size, 64);
  EXPECT_EQ(part.vocab_size, 251);
  EXPECT_EQ(SpecOf(spec, {0, 4}).vocab_size, 250);
}

}  // namespace
}  // namespace beamline
