// Ranks as threads that do the same work, and the shares that they have of a model.
#include "engine/transformer/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/shard.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_communicator.h"
#include "tests/thread_limit.h"

namespace beamline::rank_group_test {
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

TEST(RankGroupTest, ThrowsWhereThereIsNoThread) {
  const ThreadLimit limit(1);
  EXPECT_THROW(MakeGroup(3), std::system_error);
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

// Of so many stages with a rank each.
std::unique_ptr<RankGroup> MakeStages(int size) {
  std::vector<RankGroup::Rank> ranks;
  for (auto& communicator : MakeThreadCommunicators(size)) {
    ranks.push_back({MakeCpuBackend({.num_threads = 1}), nullptr, std::move(communicator)});
  }
  return std::make_unique<RankGroup>(std::move(ranks));
}

TEST(RankGroupTest, StagesDoWhatWasStartedInItsOrder) {
  constexpr int kCalls = 40;
  std::vector<std::vector<int>> done(3);
  std::vector<float> sums(kCalls, 0.0f);
  const auto group = MakeStages(3);
  EXPECT_EQ(group->num_stages(), 3);
  EXPECT_EQ(group->result_rank(), 2);
  std::vector<uint64_t> calls;
  for (int call = 0; call < kCalls; ++call) {
    calls.push_back(group->Start([&, call](int rank) {
      done[rank].push_back(call);
      float x = static_cast<float>(call);
      const Tensor tensor(&x, DType::kFloat32, {1});
      if (rank > 0) group->stages(rank)->Receive(tensor, rank - 1);
      ++x;
      if (rank < 2) group->stages(rank)->Send(tensor, rank + 1);
      if (rank == 2) sums[call] = x;
      return absl::OkStatus();
    }));
  }
  for (int call = 0; call < kCalls; ++call) {
    EXPECT_TRUE(group->Wait(calls[call]).ok());
    EXPECT_TRUE(group->Done(calls[call]));
    EXPECT_EQ(sums[call], static_cast<float>(call + 3));
  }
  for (const auto& of_rank : done) {
    EXPECT_EQ(of_rank.size(), size_t{kCalls});
    EXPECT_TRUE(std::is_sorted(of_rank.begin(), of_rank.end()));
  }
}

// The first stage is at its third piece of work while the last one has the first: each waits for
// the other to be there, so that nothing would get on if they took turns.
TEST(RankGroupTest, StagesWorkAtTheSameTime) {
  const auto group = MakeStages(3);
  std::atomic<int> first_at = -1;
  std::atomic<bool> met = false;
  uint64_t last = 0;
  for (int call = 0; call < 3; ++call) {
    last = group->Start([&, call](int rank) {
      if (rank == 0) first_at = call;
      if (rank != 2 || call != 0) return absl::OkStatus();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (first_at < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      met = first_at == 2;
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(group->Wait(last).ok());
  EXPECT_TRUE(met);
}

TEST(RankGroupTest, OneStagesErrorEndsTheOthersWaitAndStays) {
  for (int failing = 0; failing < 3; ++failing) {
    const auto group = MakeStages(3);
    const auto work = [&](int rank) -> absl::Status {
      if (rank == failing) return absl::ResourceExhaustedError("no memory");
      float x = 1.0f;
      const Tensor tensor(&x, DType::kFloat32, {1});
      if (rank > 0) group->stages(rank)->Receive(tensor, rank - 1);
      if (rank < 2) group->stages(rank)->Send(tensor, rank + 1);
      return absl::OkStatus();
    };
    uint64_t last = 0;
    for (int call = 0; call < 5; ++call) last = group->Start(work);
    EXPECT_EQ(group->Wait(last), absl::ResourceExhaustedError("no memory"));
    EXPECT_EQ(group->Run(work), absl::ResourceExhaustedError("no memory"));
    group->Drain();
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
  EXPECT_TRUE(CheckDivides(Decoder(8, 2, 64), 4).ok());
  EXPECT_EQ(CheckDivides(Decoder(12, 4, 48), 6).message(),
            "tensor_parallel is 6, which does not divide the 4 key/value heads of the decoder and "
            "is no multiple of them; accepted: 1, 2, 4");
  EXPECT_EQ(CheckDivides(Decoder(8, 8, 100), 8).message(),
            "tensor_parallel is 8, which does not divide the 100 inner features of the "
            "feed-forward of the decoder; accepted: 1, 2, 4");
  TransformerSpec few_tokens = Decoder(8, 8, 64);
  few_tokens.vocab_size = 3;
  TransformerSpec norms_all_heads = Decoder(8, 8, 64);
  norms_all_heads.decoder->norms_all_heads = true;
  EXPECT_TRUE(CheckDivides(norms_all_heads, 1).ok());
  EXPECT_EQ(CheckDivides(norms_all_heads, 2).message(),
            "tensor_parallel is 2, which does not divide the 1 norm over all query heads of the "
            "decoder; accepted: 1");
  TransformerSpec experts = Decoder(8, 8, 64);
  experts.decoder->experts = {.num_experts = 4, .num_chosen = 2, .inner_size = 6};
  EXPECT_EQ(CheckDivides(experts, 4).message(),
            "tensor_parallel is 4, which does not divide the 6 inner features of an expert of the "
            "decoder; accepted: 1, 2");
  EXPECT_EQ(SpecOf(experts, Shard{1, 2}).decoder->experts.inner_size, 3);
  EXPECT_EQ(CheckDivides(few_tokens, 4).message(),
            "tensor_parallel is 4, more than the 3 tokens of the vocabulary; accepted: 1, 2");
}

TEST(ShardTest, ARankHasItsPartOfEveryLayer) {
  TransformerSpec spec = Decoder(8, 4, 64);
  spec.vocab_size = 1001;
  const TransformerSpec part = SpecOf(spec, Shard{3, 4});
  EXPECT_EQ(part.decoder->num_heads, 2);
  EXPECT_EQ(part.decoder->num_kv_heads, 1);
  EXPECT_EQ(part.decoder->feed_forward_size, 16);
  EXPECT_EQ(part.decoder->hidden_size, 64);
  EXPECT_EQ(part.vocab_size, 251);
  EXPECT_EQ(SpecOf(spec, Shard{0, 4}).vocab_size, 250);
}

TEST(ShardTest, RanksBesideEachOtherHaveTheSameKeyHead) {
  EXPECT_EQ(SpecOf(Decoder(8, 2, 64), Shard{3, 8}).decoder->num_kv_heads, 1);
  std::vector<int64_t> heads;
  for (int rank = 0; rank < 6; ++rank) heads.push_back(Shard{rank, 6}.KvBegin(3));
  EXPECT_THAT(heads, testing::ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(HeldKvHeads(2, 8), 8);
  EXPECT_EQ(HeldKvHeads(8, 2), 8);
}

}  // namespace
}  // namespace beamline::rank_group_test
