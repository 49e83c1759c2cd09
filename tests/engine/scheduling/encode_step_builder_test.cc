#include "engine/scheduling/encode_step_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scheduling/waiting_count.h"
#include "tests/test_seed.h"

namespace beamline::encode_step_builder_test {
namespace {

class EncodeStepBuilderTest : public testing::Test {
 protected:
  EncodeJob& Add(const std::vector<int>& lengths, int32_t priority = 0) {
    auto job = std::make_unique<EncodeJob>();
    for (const int length : lengths) job->inputs.emplace_back(length, ++last_token_);
    job->rank.priority = priority;
    EncodeJob& added = *job;
    jobs_.Add(std::move(job));
    return added;
  }
  const EncoderBatch& Build(int64_t most_tokens = std::numeric_limits<int64_t>::max()) {
    builder_.Build(jobs_, Clock::time_point(), most_tokens);
    return builder_.batch();
  }

  int32_t last_token_ = 0;
  JobList<EncodeJob> jobs_;
  EncodeStepBuilder builder_{{.max_batch_tokens = 10, .max_sequences = 3}};
};

TEST_F(EncodeStepBuilderTest, PacksWholeInputsUntilOneDoesNotFit) {
  EncodeJob& first = Add({2, 3});
  EncodeJob& second = Add({5, 1});
  EXPECT_EQ(Build().token_ids, (std::vector<int32_t>{1, 1, 2, 2, 2, 3, 3, 3, 3, 3}));
  EXPECT_EQ(Build().num_sequences(), 1);  // the one that is left
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{4}));
  ASSERT_EQ(builder_.slices().size(), 1u);
  EXPECT_EQ(builder_.slices()[0].job, &second);
  EXPECT_EQ(builder_.slices()[0].begin, 1u);
  EXPECT_EQ(builder_.slices()[0].end, 2u);
  EXPECT_EQ(builder_.slices()[0].first, 0);
  EXPECT_EQ(first.num_started, 2u);
  EXPECT_TRUE(first.begun());
  EXPECT_EQ(Build().num_sequences(), 0);
  EXPECT_TRUE(builder_.slices().empty());
}

TEST_F(EncodeStepBuilderTest, TypesOfAnInputStandAtItsTokens) {
  Add({2});
  EncodeJob& typed = Add({1, 2});
  typed.type_ids = {{1}, {0, 2}};
  EXPECT_EQ(Build().type_ids, (std::vector<int32_t>{0, 0, 1, 0, 2}));
  Add({3});
  EXPECT_TRUE(Build().type_ids.empty());
  Add({1}).type_ids = {{1}};
  Add({2});
  EXPECT_EQ(Build().type_ids, (std::vector<int32_t>{1, 0, 0}));
}

TEST_F(EncodeStepBuilderTest, HasNoMoreSequencesThanThereMayBe) {
  EncodeJob& job = Add({1, 1, 1, 1});
  EXPECT_EQ(Build().offsets, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(job.num_started, 3u);
}

TEST_F(EncodeStepBuilderTest, NobodyPassesTheOneThatIsNext) {
  EncodeJob& large = Add({6, 6});
  EncodeJob& small = Add({1});
  EXPECT_EQ(Build().token_ids.size(), 6u);
  EXPECT_EQ(large.num_started, 1u);
  EXPECT_FALSE(small.begun());
}

TEST_F(EncodeStepBuilderTest, TheHigherPriorityIsPackedFirst) {
  EncodeJob& low = Add({4});
  EncodeJob& high = Add({7}, /*priority=*/1);
  EXPECT_EQ(Build().token_ids.size(), 7u);
  ASSERT_EQ(builder_.slices().size(), 1u);
  EXPECT_EQ(builder_.slices()[0].job, &high);
  EXPECT_FALSE(low.begun());
}

TEST_F(EncodeStepBuilderTest, AStepIsAsShortAsItsInputsAllow) {
  EncodeJob& first = Add({2, 3, 2});
  EncodeJob& second = Add({9, 1});
  EXPECT_EQ(Build(5).token_ids.size(), 5u);
  EXPECT_EQ(first.num_started, 2u);
  EXPECT_FALSE(second.begun());
  EXPECT_EQ(Build(5).token_ids.size(), 9u);  // an input is never divided
  EXPECT_EQ(Build(5).token_ids.size(), 3u);
  EXPECT_EQ(Build(5).num_sequences(), 0);
}

class LongSlicesTest : public EncodeStepBuilderTest {
 protected:
  // Returns the job whose long input was started, or null.
  const EncodeJob* BuildWithLong(bool takes_long = true) {
    builder_.Build(jobs_, Clock::time_point(), std::numeric_limits<int64_t>::max(), takes_long);
    const auto& slice = builder_.long_slice();
    return slice.has_value() ? slice->job : nullptr;
  }
};

TEST_F(LongSlicesTest, GoByThemselvesBesideTheOthersOfTheJob) {
  EncodeJob& job = Add({2, 11, 3, 4});
  EXPECT_EQ(BuildWithLong(), &job);
  EXPECT_EQ(builder_.long_slice()->begin, 1u);
  EXPECT_EQ(builder_.long_slice()->end, 2u);
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{1, 1, 3, 3, 3, 4, 4, 4, 4}));
  ASSERT_EQ(builder_.slices().size(), 2u);
  EXPECT_EQ(builder_.slices()[0].end, 1u);
  EXPECT_EQ(builder_.slices()[1].begin, 2u);
  EXPECT_EQ(builder_.slices()[1].first, 1);
  EXPECT_EQ(job.num_started, 4u);
  EXPECT_EQ(job.rank.fair_tag, 20);
  EXPECT_EQ(jobs_.begun().size(), 1u);
}

TEST_F(LongSlicesTest, ArePassedWhileTheyWait) {
  EncodeJob& first = Add({12});
  EncodeJob& second = Add({13, 1});
  EncodeJob& third = Add({3});
  EXPECT_EQ(BuildWithLong(), &first);
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{4, 4, 4}));
  EXPECT_TRUE(builder_.batch().num_sequences() == 1 && third.begun());
  EXPECT_FALSE(second.begun());
  Add({2});
  EXPECT_EQ(BuildWithLong(/*takes_long=*/false), nullptr);
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{5, 5}));
  EXPECT_FALSE(second.begun());
  EXPECT_EQ(BuildWithLong(), &second);
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{3}));
  EXPECT_EQ(BuildWithLong(), nullptr);
}

TEST_F(LongSlicesTest, ShorterOnesAreLongWhereTheyTakeTheirTime) {
  builder_.SetMostWhole(4);
  EncodeJob& first = Add({5, 4});
  EncodeJob& second = Add({6});
  EXPECT_EQ(BuildWithLong(), &first);
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{2, 2, 2, 2}));
  EXPECT_FALSE(second.begun());
  builder_.SetMostWhole(10);
  EXPECT_EQ(BuildWithLong(/*takes_long=*/false), nullptr);
  EXPECT_EQ(builder_.batch().token_ids.size(), 6u);
}

TEST_F(LongSlicesTest, TheHigherPriorityIsFirst) {
  EncodeJob& low = Add({12});
  EncodeJob& high = Add({11}, /*priority=*/1);
  EXPECT_EQ(BuildWithLong(), &high);
  EXPECT_EQ(BuildWithLong(), &low);
}

TEST(StepTokensTest, AreOfTheTimeThatClientsHaveWhereSeveralAsk) {
  constexpr auto kTokens = &EncodeStepBuilder::TokensOfStep;
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(kTokens(2, EncodeStepBuilder::kSecondsOfClient / 1024), 2048);
  EXPECT_EQ(kTokens(4, EncodeStepBuilder::kSecondsOfClient / 1024), 4096);
  EXPECT_EQ(kTokens(8, 1), EncodeStepBuilder::kLeastTokens);
  EXPECT_EQ(kTokens(0, 1), kAny);
  EXPECT_EQ(kTokens(1, 1), kAny);
  EXPECT_EQ(kTokens(2, 0), kAny);  // not known
  EXPECT_GT(kTokens(2, 1e-18), int64_t{1} << 50);
  EXPECT_EQ(kTokens(2, 1e-300), kAny);
}

// Jobs of clients, who wait as an engine has them wait.
class Clients {
 public:
  explicit Clients(const StepLimits& limits) : builder_(limits) {}

  EncodeJob& Add(const std::string& client, const std::vector<size_t>& lengths,
                 int32_t priority = 0) {
    auto job = std::make_unique<EncodeJob>();
    int64_t cost = 0;
    for (const size_t length : lengths) {
      job->inputs.emplace_back(length, ++last_token_);
      cost += static_cast<int64_t>(length);
    }
    now_ += std::chrono::nanoseconds(1);  // nobody comes at another's time
    job->rank = {.priority = priority, .arrival = now_};
    job->waiting = *WaitingCount::Enter(counter_, 1 << 20);
    EXPECT_FALSE(job->waiting
                     .Describe({.priority = priority,
                                .client = client,
                                .cost = cost,
                                .input_tokens = cost,
                                .arrival = now_},
                               std::numeric_limits<int64_t>::max())
                     .has_value());
    EncodeJob& added = *job;
    jobs_.Add(std::move(job));
    return added;
  }
  // A step, and the end of the jobs that it completes.
  void Step(int64_t most_tokens) {
    builder_.Build(jobs_, now_, most_tokens);
    now_ += std::chrono::milliseconds(20);
  }
  // Returns how many jobs have been started as a whole.
  int RemoveComplete() {
    int count = 0;
    for (const auto& job : jobs_.jobs()) {
      if (job->num_started < job->inputs.size()) continue;
      jobs_.Drop(*job);
      job->waiting.Leave();
      ++count;
    }
    jobs_.RemoveDone([](std::unique_ptr<EncodeJob>) {});
    return count;
  }
  void Wait(std::chrono::milliseconds time) { now_ += time; }
  const JobList<EncodeJob>& jobs() const { return jobs_; }
  const EncodeStepBuilder& builder() const { return builder_; }
  // What is first by turns: the least of these, of a job that has inputs left.
  static std::tuple<int64_t, Clock::time_point> Turn(const EncodeJob& job) {
    return {job.rank.fair_tag, job.rank.arrival};
  }
  EncodeJob* FirstInTurn() const {
    EncodeJob* first = nullptr;
    for (const auto& job : jobs_.jobs()) {
      if (job->num_started == job->inputs.size()) continue;
      if (first == nullptr || Turn(*job) < Turn(*first)) first = job.get();
    }
    return first;
  }

 private:
  int32_t last_token_ = 0;
  Clock::time_point now_{std::chrono::hours(1)};
  WaitingCounter counter_;  // outlives the jobs
  JobList<EncodeJob> jobs_;
  EncodeStepBuilder builder_;
};

// Neither the number of a client's requests nor their priority keeps another's out of a step.
TEST(TurnsTest, WhoComesIsInTheNextStep) {
  for (const int32_t priority : {-5, 0, 5}) {
    Clients clients({.max_batch_tokens = 4096, .max_sequences = 256});
    for (int i = 0; i < 2000; ++i) clients.Add("busy", {5}, priority);
    for (int step = 0; step < 20; ++step) {
      const EncodeJob& quiet = clients.Add("quiet", {40});
      clients.Step(256);
      EXPECT_TRUE(quiet.begun()) << step;
      EXPECT_LE(clients.builder().batch().token_ids.size(), 256u + 40);
      const int complete = clients.RemoveComplete();
      for (int i = 1; i < complete; ++i) clients.Add("busy", {5}, priority);
    }
  }
}

TEST(TurnsTest, MostOfAStepIsOfTheHighestPriority) {
  Clients clients({.max_batch_tokens = 4096, .max_sequences = 256});
  for (int i = 0; i < 100; ++i) clients.Add("low", {10});
  for (int i = 0; i < 100; ++i) clients.Add("high", {10}, /*priority=*/5);
  clients.Step(400);
  int high = 0, low = 0;
  for (const EncodeSlice& slice : clients.builder().slices()) {
    ++(slice.job->rank.priority > 0 ? high : low);
  }
  EXPECT_EQ(high, 35);  // of 350 tokens
  EXPECT_EQ(low, 5);    // who have had nothing
}

TEST(TurnsTest, HoldOfSequencesToo) {
  Clients clients({.max_batch_tokens = 4096, .max_sequences = 16});
  for (int i = 0; i < 40; ++i) clients.Add("busy", {1}, /*priority=*/5);
  const EncodeJob& quiet = clients.Add("quiet", {1});
  clients.Step(4096);
  EXPECT_TRUE(quiet.begun());
  EXPECT_EQ(clients.builder().batch().num_sequences(), 16);
}

// What holds of each step, whatever comes.
void Check(const Clients& clients, const StepLimits& limits, int64_t most_tokens, size_t longest,
           const EncodeJob* first_in_turn) {
  const EncodeStepBuilder& builder = clients.builder();
  const EncoderBatch& batch = builder.batch();
  ASSERT_LE(batch.num_sequences(), limits.max_sequences);
  ASSERT_LE(batch.token_ids.size(), static_cast<size_t>(limits.max_batch_tokens));
  // An input that needs more at the begin of either part.
  ASSERT_LE(batch.token_ids.size(), static_cast<size_t>(most_tokens) + 2 * longest);
  int32_t sequence = 0;
  bool has_first_in_turn = first_in_turn == nullptr;
  for (const EncodeSlice& slice : builder.slices()) {
    ASSERT_EQ(slice.first, sequence);
    ASSERT_LT(slice.begin, slice.end);
    ASSERT_LE(slice.end, slice.job->num_started);
    has_first_in_turn |= slice.job == first_in_turn;
    for (size_t i = slice.begin; i < slice.end; ++i, ++sequence) {
      const auto begin = static_cast<size_t>(batch.offsets[static_cast<size_t>(sequence)]);
      const auto end = static_cast<size_t>(batch.offsets[static_cast<size_t>(sequence) + 1]);
      ASSERT_EQ(TokenIds(batch.token_ids.begin() + static_cast<std::ptrdiff_t>(begin),
                         batch.token_ids.begin() + static_cast<std::ptrdiff_t>(end)),
                slice.job->inputs[i]);
    }
  }
  ASSERT_EQ(sequence, batch.num_sequences());
  ASSERT_TRUE(has_first_in_turn);
}

TEST(TurnsTest, HoldInAnySchedule) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  for (int schedule = 0; schedule < 200; ++schedule) {
    SCOPED_TRACE(schedule);
    const auto longest = static_cast<size_t>(draw(1, 40));
    const int64_t most_tokens = draw(1, 100);
    // Room for who is first in turn, behind what the priorities fill.
    const StepLimits limits = {
        .max_batch_tokens = static_cast<int32_t>(most_tokens + 2 * static_cast<int64_t>(longest)),
        .max_sequences = static_cast<int32_t>(draw(8, 40))};
    Clients clients(limits);
    const int num_clients = static_cast<int>(draw(1, 5));
    const int32_t lowest = static_cast<int32_t>(draw(-3, 0));
    const int32_t highest = static_cast<int32_t>(draw(0, 5));
    size_t inputs = 0, started = 0;
    int jobs = 0, complete = 0;
    for (int step = 0; step < 60 || !clients.jobs().empty(); ++step) {
      ASSERT_LT(step, 100000);
      for (int64_t i = step < 60 ? draw(0, 6) : 0; i > 0; --i) {
        std::vector<size_t> lengths(static_cast<size_t>(draw(1, 6)));
        for (size_t& length : lengths)
          length = static_cast<size_t>(draw(1, static_cast<int64_t>(longest)));
        inputs += lengths.size();
        ++jobs;
        clients.Add(std::string(1, static_cast<char>('a' + draw(0, num_clients - 1))), lengths,
                    static_cast<int32_t>(draw(lowest, highest)));
      }
      const EncodeJob* const first_in_turn = clients.FirstInTurn();
      clients.Step(most_tokens);
      ASSERT_NO_FATAL_FAILURE(Check(clients, limits, most_tokens, longest, first_in_turn));
      for (const EncodeSlice& slice : clients.builder().slices())
        started += slice.end - slice.begin;
      complete += clients.RemoveComplete();
      clients.Wait(std::chrono::milliseconds(draw(0, 200)));
    }
    ASSERT_EQ(started, inputs);
    ASSERT_EQ(complete, jobs);
  }
}

}  // namespace
}  // namespace beamline::encode_step_builder_test
