// Processes of a model that are lost one after the other, in any order and while the others come
// together again: whoever was not killed goes on, and the model comes back. The followers are this
// program with arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/transformer/ranked_backend.h"
#include "kernels/cpu/process_communicator.h"
#include "tests/engine/late_backend.h"
#include "tests/engine/rank_processes.h"
#include "tests/engine/request_catalogue.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto kSoon = std::chrono::seconds(100);

// Requests without a pause. Each has the right answer or UNAVAILABLE.
class Load {
 public:
  explicit Load(Engine& engine)
      : engine_(engine), request_(Translate("Press any key to continue.", GreedyOptions())) {
    const auto expected = engine.GenerateAndWait(request_);
    EXPECT_TRUE(expected.ok()) << expected.status();
    if (!expected.ok()) return;
    text_ = expected->sequences.front().text;
    for (int i = 0; i < 4; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Load() { stop_ = true; }

  // Until one was answered that was asked from now on.
  void AwaitAnswer() {
    const int64_t before = num_answered_;
    const auto begin = Clock::now();
    while (num_answered_ <= before + std::ssize(threads_)) {
      ASSERT_LT(Clock::now() - begin, kSoon);
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

 private:
  void Run() {
    while (!stop_) {
      const auto result = engine_.GenerateAndWait(request_);
      if (result.ok()) {
        ++num_answered_;
        EXPECT_EQ(result->sequences.front().text, text_);
      } else {
        EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
  }

  Engine& engine_;
  const GenerateRequest request_;
  std::string text_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> num_answered_ = 0;
  std::vector<std::jthread> threads_;
};

TEST(RankLossesTest, WhoIsNotKilledGoesOnAndTheModelComesBack) {
  const ModelOptions model = OnCpu("translate-en-de", 4);
  Processes processes(model);
  ASSERT_NE(processes.engine, nullptr);
  Load load(*processes.engine);
  std::mt19937 random(TestSeed());
  const auto wait = [&](unsigned most_ms) {
    std::this_thread::sleep_for(milliseconds(random() % (most_ms + 1)));
  };
  for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
    std::vector<int> ranks = {1, 2, 3};
    std::ranges::shuffle(ranks, random);
    ranks.resize(1 + random() % 3);
    std::string killed;
    for (const int rank : ranks) killed += std::to_string(rank) + " ";
    SCOPED_TRACE("round " + std::to_string(round) + ": killed " + killed);
    load.AwaitAnswer();
    const auto start = [&](int rank) {
      processes.followers[rank - 1] = FollowerProcess(model, processes.door, rank);
    };
    for (const int rank : ranks) {
      processes.followers[rank - 1].Kill();
      wait(150);
    }
    std::ranges::shuffle(ranks, random);
    for (const int rank : ranks) {
      start(rank);
      wait(150);
    }
    if (round % 2 == 1) {  // once more, while they come together
      wait(1500);
      processes.followers[ranks.front() - 1].Kill();
      start(ranks.front());
    }
    load.AwaitAnswer();
    for (size_t i = 0; i < processes.followers.size(); ++i) {
      EXPECT_TRUE(processes.followers[i].is_running()) << "rank " << i + 1;
    }
  }
}

// A front whose follower was lost, and its device.
struct LateFront {
  LateFront() {
    const RankDoor door = DoorFor(2);
    std::thread follower([&] { EXPECT_TRUE(RankLinks::Join(door, 1).ok()); });  // and ends
    auto links = RankLinks::Gather(door);
    follower.join();
    EXPECT_TRUE(links.ok()) << links.status();
    auto made = std::make_unique<LateBackend>(1);
    device = made.get();
    RankGroup::Rank rank = {.backend = std::move(made),
                            .communicator = MakeProcessCommunicator(*links)};
    backend = std::make_unique<RankedBackend>(
        std::make_unique<RankGroup>(std::move(rank), *std::move(links)));
    while (backend->ranks().status().ok()) std::this_thread::sleep_for(milliseconds(5));
  }

  LateBackend* device = nullptr;
  std::unique_ptr<RankedBackend> backend;
};

TEST(RankLossesTest, ALossLeavesTheDeviceWhole) {
  LateFront front;
  const absl::Status status = front.backend->Synchronize();
  EXPECT_THAT(std::string(status.message()), testing::MatchesRegex("rank 1 at .* has ended"));
  EXPECT_TRUE(status.GetPayload(kDeviceWholePayload).has_value());
}

TEST(RankLossesTest, ADeviceThatBreaksWithALossIsNamedBesideIt) {
  LateFront front;
  front.device->BreakAfter(-1);
  const absl::Status status = front.backend->Synchronize();
  EXPECT_THAT(
      std::string(status.message()),
      testing::MatchesRegex("rank 1 at .* has ended; and then its device: the late device broke"));
  EXPECT_FALSE(status.GetPayload(kDeviceWholePayload).has_value());
  const absl::Status of_device = absl::UnavailableError("the late device broke");
  EXPECT_EQ(WithDeviceFault(of_device, of_device), of_device);
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  if (beamline::IsFollower(argc, argv)) return beamline::RunFollower(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
