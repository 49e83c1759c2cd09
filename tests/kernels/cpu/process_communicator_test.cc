// Ranks as processes: what collectives compute, and how they end when a rank fails.
// Ranks are threads with connections of their own where a test looks at all of them, and processes,
// which are this program with arguments, where one is to be killed.
#include "kernels/cpu/process_communicator.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/thread_communicator.h"
#include "tests/rank_door.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

absl::StatusOr<std::shared_ptr<RankLinks>> Enter(const RankDoor& door, int rank) {
  return rank == 0 ? RankLinks::Gather(door) : RankLinks::Join(door, rank);
}

// Runs `work` with each rank's communicator, on a thread each.
void OnRanks(const RankDoor& door, const std::function<void(Communicator&, RankLinks&)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < door.size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto links = Enter(door, rank);
      ASSERT_TRUE(links.ok()) << links.status();
      work(*MakeProcessCommunicator(*links), **links);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A rank's inputs and results of every collective, one behind the other, as bytes.
std::string AllCollectives(Communicator& communicator, uint32_t seed) {
  std::string results;
  const auto keep = [&](const auto& values) {
    results.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  };
  const int rank = communicator.rank(), size = communicator.size();
  std::mt19937 shapes(seed), random(seed + 1000 + static_cast<uint32_t>(rank));
  std::normal_distribution<float> normal;
  const auto draw = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  };
  for (int round = 0; round < 20; ++round) {
    const int64_t rows = 1 + shapes() % 9, width = 1 + shapes() % (round == 0 ? 200000 : 700);
    std::vector<float> x = draw(rows * width);
    communicator.AllReduceSum(Tensor(x.data(), DType::kFloat32, {rows, width}));
    keep(x);

    const int64_t first = width * rank / size, own = width * (rank + 1) / size - first;
    std::vector<float> part = draw(rows * (own + 2)),
                       whole(static_cast<size_t>(rows * (width + 1)));
    communicator.AllGather(
        Tensor(part.data(), DType::kFloat32, {rows, own + 2}).Columns(1, own),
        Tensor(whole.data(), DType::kFloat32, {rows, width + 1}).Columns(0, width));
    keep(whole);

    x = draw(width);
    communicator.Broadcast(Tensor(x.data(), DType::kFloat32, {width}), round % size);
    keep(x);

    const int most = 5;
    const auto list = static_cast<size_t>(rows) * most;
    std::vector<int32_t> counts(static_cast<size_t>(rows)), ids(list), merged_ids(list);
    for (int32_t& count : counts) count = 1 + static_cast<int32_t>(shapes() % most);
    std::vector<float> values(list), merged(list), raw = draw(static_cast<int64_t>(list)),
                                                   merged_raw(list), normalizers = draw(rows),
                                                   merged_normalizers(counts.size());
    for (size_t i = 0; i < list; ++i) {
      values[i] = static_cast<float>(most - static_cast<int>(i % most)) +
                  static_cast<float>(random() % 3) * 0.5f - (i % most == 0 ? 0.0f : 0.25f);
      ids[i] = static_cast<int32_t>(i % most);
    }
    communicator.MergeCandidates({.counts = counts,
                                  .max_count = most,
                                  .first_column = rank * most,
                                  .num_columns = rank == 0 ? 2 : most,
                                  .values = values.data(),
                                  .ids = ids.data(),
                                  .raw_values = raw.data(),
                                  .log_normalizers = normalizers.data(),
                                  .merged_values = merged.data(),
                                  .merged_ids = merged_ids.data(),
                                  .merged_raw_values = merged_raw.data(),
                                  .merged_log_normalizers = merged_normalizers.data()});
    keep(merged);
    keep(merged_ids);
    keep(merged_raw);
    keep(merged_normalizers);

    const int other = 1 + round % (size - 1);  // with the front
    x = draw(width);
    const Tensor message(x.data(), DType::kFloat32, {width});
    if (rank == 0) communicator.Receive(message, other);
    if (rank == other) communicator.Send(message, 0);
    keep(x);
  }
  EXPECT_TRUE(communicator.status().ok()) << communicator.status();
  return results;
}

TEST(ProcessCommunicatorTest, CollectivesAreTheBitsOfThreads) {
  for (const int size : {2, 3, 5}) {
    const uint32_t seed = TestSeed() + static_cast<uint32_t>(size);
    std::vector<std::string> expected(static_cast<size_t>(size)), found(expected.size());
    const auto threads = MakeThreadCommunicators(size);
    std::vector<std::thread> running;
    for (int rank = 0; rank < size; ++rank) {
      running.emplace_back([&, rank] {
        expected[static_cast<size_t>(rank)] = AllCollectives(*threads[rank], seed);
      });
    }
    for (std::thread& thread : running) thread.join();
    OnRanks(DoorFor(size), [&](Communicator& communicator, RankLinks&) {
      found[static_cast<size_t>(communicator.rank())] = AllCollectives(communicator, seed);
    });
    for (size_t rank = 0; rank < found.size(); ++rank) {
      EXPECT_TRUE(found[rank] == expected[rank]) << "rank " << rank << " of " << size;
    }
  }
}

void Sum(Communicator& communicator, int64_t count = 8) {
  std::vector<float> x(static_cast<size_t>(count), 1.0f);
  communicator.AllReduceSum(Tensor(x.data(), DType::kFloat32, {count}));
}

TEST(ProcessCommunicatorTest, AbortEndsTheWaitOfOthersForGood) {
  for (int aborting = 0; aborting < 3; ++aborting) {
    OnRanks(DoorFor(3), [&](Communicator& communicator, RankLinks&) {
      if (communicator.rank() == aborting) {
        std::this_thread::sleep_for(milliseconds(20));
        communicator.Abort(absl::InternalError("rank broke"));
      } else {
        Sum(communicator);
      }
      EXPECT_EQ(communicator.status(), absl::UnavailableError("rank broke"));
      Sum(communicator);  // returns, alone
      communicator.Abort(absl::InternalError("later"));
      EXPECT_EQ(communicator.status().message(), "rank broke");
    });
  }
}

// The wait of one ends the others' too, who wait for the front.
TEST(ProcessCommunicatorTest, ARankThatDoesNotComeFailsTheOthers) {
  RankDoor door = DoorFor(3);
  door.time_limit = milliseconds(300);
  std::atomic<int> num_left = 2;
  OnRanks(door, [&](Communicator& communicator, RankLinks& links) {
    if (communicator.rank() == 2) {
      while (num_left > 0) std::this_thread::sleep_for(milliseconds(5));
    } else {
      Sum(communicator);
      --num_left;
      EXPECT_TRUE(absl::IsUnavailable(communicator.status()));
      if (communicator.rank() == 0) {
        EXPECT_EQ(communicator.status().message(),
                  links.NameOf(2) + " did not go on within 300 ms");
      }
    }
  });
}

TEST(ProcessCommunicatorTest, AbortsAtAnyTime) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < (kSanitized ? 5 : 40); ++round) {
    const auto delay = std::chrono::microseconds(random() % 3000);
    const int aborting = round % 3;
    OnRanks(DoorFor(3), [&](Communicator& communicator, RankLinks&) {
      std::thread other([&] {
        if (communicator.rank() != aborting) return;
        std::this_thread::sleep_for(delay);
        communicator.Abort(absl::CancelledError("enough"));
      });
      while (communicator.status().ok()) Sum(communicator, 100000);
      other.join();
      EXPECT_TRUE(absl::IsUnavailable(communicator.status())) << communicator.status();
    });
  }
}

TEST(ProcessCommunicatorTest, FollowersDoNotSendToEachOther) {
  OnRanks(DoorFor(3), [&](Communicator& communicator, RankLinks&) {
    float x = 0.0f;
    const Tensor message(&x, DType::kFloat32, {1});
    if (communicator.rank() == 1) communicator.Send(message, 2);
    if (communicator.rank() == 2) communicator.Receive(message, 1);
    while (communicator.status().ok()) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_THAT(std::string(communicator.status().message()), HasSubstr("rank 2"));
  });
}

// Three stages over two connections, whose ranks are called by their numbers in the model.
TEST(ProcessCommunicatorTest, StagesSendToTheNextOne) {
  constexpr int kStages = 3, kMessages = 40;
  std::vector<RankDoor> doors = {DoorFor(2), DoorFor(2)};
  doors[0].names = {1, 2};
  doors[1].names = {2, 0};
  std::vector<std::string> faults(kStages);
  std::vector<std::thread> stages;
  for (int stage = 0; stage < kStages; ++stage) {
    stages.emplace_back([&, stage] {
      std::shared_ptr<RankLinks> previous, next;
      if (stage + 1 < kStages) next = *Enter(doors[stage], 0);
      if (stage > 0) previous = *Enter(doors[stage - 1], 1);
      const auto end = MakeChainCommunicator(stage, kStages, previous, next);
      std::vector<float> x(5000);
      for (int message = 0; message < kMessages; ++message) {
        const Tensor rows(x.data(), DType::kFloat32, {message % 7 + 1, 700});
        if (stage == 0) x.assign(x.size(), static_cast<float>(message));
        if (stage > 0) end->Receive(rows, stage - 1);
        EXPECT_EQ(x[100], static_cast<float>(message + stage - (stage > 0 ? 1 : 0)));
        for (float& value : x) value += stage > 0 ? 1.0f : 0.0f;
        if (stage + 1 < kStages) end->Send(rows, stage + 1);
      }
      EXPECT_TRUE(end->status().ok()) << end->status();
      if (stage == 2) return;  // it ends, which its neighbour hears of, and tells no further
      while (stage == 1 && end->status().ok()) std::this_thread::sleep_for(milliseconds(5));
      if (stage == 1) end->Abort(end->status());
      while (end->status().ok()) std::this_thread::sleep_for(milliseconds(5));
      faults[stage] = std::string(end->status().message());
    });
  }
  for (std::thread& stage : stages) stage.join();
  EXPECT_THAT(faults[1], HasSubstr("rank 0 at 127."));
  EXPECT_THAT(faults[1], HasSubstr(" has ended"));
  EXPECT_EQ(faults[0], faults[1]);
}

TEST(ProcessCommunicatorTest, ACallThatDiffersIsAFaultAndNotTheEnd) {
  OnRanks(DoorFor(2), [&](Communicator& communicator, RankLinks& links) {
    if (communicator.rank() == 1) {
      Sum(communicator, 5);
    } else {
      Sum(communicator, 4);
      EXPECT_EQ(communicator.status().message(),
                links.NameOf(1) + " sent a sum of 20 bytes where a sum was expected");
    }
    EXPECT_TRUE(absl::IsUnavailable(communicator.status()));
  });
}

// An idle rank hears of another's end without a collective.
TEST(ProcessCommunicatorTest, TheFrontsEndIsNoFault) {
  OnRanks(DoorFor(3), [&](Communicator& communicator, RankLinks& links) {
    if (communicator.rank() == 0) return;
    std::string call;
    const auto transfer = RankLinks::Transfer::From(0, RankLinks::Kind::kCall, call);
    EXPECT_FALSE(links.Move({&transfer, 1}, {.limited = false}));
    EXPECT_TRUE(absl::IsCancelled(links.fault())) << links.fault();
  });
}

// A rank as a process: this program with its place.
class RankProcess {
 public:
  RankProcess(const RankDoor& door, int rank) {
    std::vector<std::string> arguments = {"rank", door.host, fmt::format("{}", door.port),
                                          fmt::format("{}", door.size), fmt::format("{}", rank)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&id_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ), 0);
  }
  ~RankProcess() { Kill(); }
  void Kill() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = 0;
  }
  int Wait() {
    int status = 0;
    waitpid(id_, &status, 0);
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t id_ = 0;
};

TEST(RankProcessTest, SumsUntilTheFrontEnds) {
  const RankDoor door = DoorFor(3);
  RankProcess one(door, 1), two(door, 2);
  {
    const auto links = RankLinks::Gather(door);
    ASSERT_TRUE(links.ok()) << links.status();
    const auto communicator = MakeProcessCommunicator(*links);
    for (int i = 0; i < 100; ++i) {
      std::vector<float> x(1000, 0.5f);
      communicator->AllReduceSum(Tensor(x.data(), DType::kFloat32, {1000}));
      ASSERT_EQ(x[999], 2.5f);
    }
  }
  EXPECT_EQ(one.Wait(), 0);  // CANCELLED
  EXPECT_EQ(two.Wait(), 0);
}

TEST(RankProcessTest, AKilledRankIsNamedAtOnceOnEveryRank) {
  for (int round = 0; round < 5; ++round) {
    const RankDoor door = DoorFor(3);
    RankProcess killed(door, 2);
    std::string of_follower, name;
    std::thread follower([&] {
      const auto links = RankLinks::Join(door, 1);
      ASSERT_TRUE(links.ok()) << links.status();
      const auto communicator = MakeProcessCommunicator(*links);
      while (communicator->status().ok()) Sum(*communicator, 1000);
      of_follower = std::string(communicator->status().message());
    });
    const auto links = RankLinks::Gather(door);
    ASSERT_TRUE(links.ok()) << links.status();
    const auto communicator = MakeProcessCommunicator(*links);
    for (int i = 0; i < 50; ++i) Sum(*communicator, 1000);
    ASSERT_TRUE(communicator->status().ok());
    const auto begin = Clock::now();
    std::thread killing([&] { killed.Kill(); });
    while (communicator->status().ok()) Sum(*communicator, 1000);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
    killing.join();
    follower.join();
    name = (*links)->NameOf(2);
    EXPECT_THAT(std::string(communicator->status().message()), HasSubstr(name));
    EXPECT_THAT(of_follower, HasSubstr(name));
  }
}

}  // namespace

// Sums until the front ends, which is status 0, or something fails.
int RunRank(char** arguments) {
  const RankDoor door = {.host = arguments[1],
                         .port = std::atoi(arguments[2]),
                         .size = std::atoi(arguments[3]),
                         .secret = kRankSecret};
  const auto links = RankLinks::Join(door, std::atoi(arguments[4]));
  if (!links.ok()) return 2;
  const auto communicator = MakeProcessCommunicator(*links);
  while (communicator->status().ok()) {
    std::vector<float> x(1000, 1.0f);
    communicator->AllReduceSum(Tensor(x.data(), DType::kFloat32, {1000}));
  }
  return absl::IsCancelled(communicator->status()) ? 0 : 1;
}

}  // namespace beamline

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[0]) == "rank") return beamline::RunRank(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
