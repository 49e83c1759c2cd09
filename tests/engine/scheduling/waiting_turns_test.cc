// Turns of jobs that wait.
#include "engine/scheduling/waiting_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/test_seed.h"

namespace beamline::waiting_turns_test {
namespace {

using std::chrono::milliseconds;

struct Waiting {
  WaitingRank rank;
  int32_t turn = -1;
  bool is_in_list = true;
};

// Jobs that come and go, in a WaitingList and beside it.
class WaitingTurnsTest : public testing::Test {
 protected:
  int Below(uint64_t bound) { return static_cast<int>(random_() % bound); }
  void Add(int num_priorities, bool in_list) {
    auto job = std::make_unique<Waiting>();
    job->rank = {.priority = Below(num_priorities) - num_priorities / 2,
                 .fair_tag = Below(10),
                 .arrival = now_ - milliseconds(50 * Below(10))};
    job->is_in_list = in_list;
    if (in_list) list_.Add(*job);
    jobs_.push_back(std::move(job));
  }
  void Remove(size_t place) {
    EXPECT_EQ(list_.Remove(*jobs_[place]), jobs_[place]->is_in_list);
    EXPECT_FALSE(list_.Remove(*jobs_[place]));
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(place));
  }
  void Start(WaitingTurns<Waiting>& turns) {
    turns.Start(list_, now_);
    for (const auto& job : jobs_) {
      if (!job->is_in_list) turns.Add(*job);
    }
  }
  // As they go, of equal ones first those that are not in the list.
  std::vector<Waiting*> Sorted() const {
    WaitingOrder order(now_);
    for (const auto& job : jobs_) order.Add(job->rank);
    return Sorted(order);
  }
  std::vector<Waiting*> Sorted(const WaitingOrder& order) const {
    std::vector<Waiting*> sorted;
    for (const auto& job : jobs_) sorted.push_back(job.get());
    std::ranges::stable_sort(sorted, [&](const Waiting* a, const Waiting* b) {
      if (order(a->rank, b->rank)) return true;
      return !order(b->rank, a->rank) && !a->is_in_list && b->is_in_list;
    });
    return sorted;
  }

  std::mt19937_64 random_{TestSeed()};
  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
  WaitingList<Waiting> list_;
  std::vector<std::unique_ptr<Waiting>> jobs_;  // as they came
};

TEST_F(WaitingTurnsTest, HandsOutWhatSortingWould) {
  WaitingTurns<Waiting> turns;
  for (int round = 0; round < 2000; ++round) {
    const int num_priorities = 1 + Below(6) * Below(2);
    for (int i = Below(12); i > 0; --i) Add(num_priorities, /*in_list=*/Below(5) != 0);
    while (!jobs_.empty() && Below(jobs_.size() + 12) > 12) Remove(random_() % jobs_.size());
    now_ += milliseconds(Below(60));
    Start(turns);
    std::vector<Waiting*> sorted = Sorted();
    // Often not all of them are asked for.
    sorted.resize(static_cast<size_t>(Below(sorted.size() + 1)));
    for (const Waiting* next : sorted) ASSERT_EQ(turns.Next(), next) << round;
    if (sorted.size() < jobs_.size()) continue;
    EXPECT_EQ(turns.Next(), nullptr);
  }
}

// Those that are left, and the one that was handed out last.
TEST_F(WaitingTurnsTest, ForgetsPrioritiesMidway) {
  WaitingTurns<Waiting> turns;
  for (int round = 0; round < 500; ++round) {
    while (!jobs_.empty()) Remove(jobs_.size() - 1);
    for (int i = 2 + Below(30); i > 0; --i) Add(5, /*in_list=*/Below(5) != 0);
    Start(turns);
    const std::vector<Waiting*> first = Sorted();
    const size_t count = 1 + random_() % jobs_.size();
    Waiting* last = nullptr;
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(last = turns.Next(), first[i]);
    turns.ForgetPriorities(*last);
    WaitingOrder order(now_);
    for (const auto& job : jobs_) order.Add(job->rank);
    order.ForgetPriorities();
    std::vector<Waiting*> rest = Sorted(order);
    std::erase_if(rest, [&](const Waiting* job) {
      return std::find(first.begin(), first.begin() + count - 1, job) != first.begin() + count - 1;
    });
    // Equal ones in any order.
    const auto turn = [](const Waiting& job) {
      return std::pair(job.rank.fair_tag, job.rank.arrival);
    };
    std::vector<const Waiting*> handed_out;
    for (const Waiting* expected : rest) {
      const Waiting* const next = turns.Next();
      ASSERT_NE(next, nullptr);
      EXPECT_EQ(turn(*next), turn(*expected));
      handed_out.push_back(next);
    }
    EXPECT_TRUE(std::ranges::is_permutation(rest, handed_out));
    EXPECT_EQ(turns.Next(), nullptr);
  }
}

}  // namespace
}  // namespace beamline::waiting_turns_test
