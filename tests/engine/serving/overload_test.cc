// Overload on a simulated clock: what is accepted, given up and run by the same classes that a
// replica uses, against a device whose steps take a known time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/running_width.h"
#include "engine/scheduling/waiting_count.h"
#include "engine/serving/outlook.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline::overload_test {
namespace {

struct Counts {
  int asked = 0, refused = 0, refused_first = 0, answered = 0, late = 0, hopeless = 0;
  double work = 0;    // steps of rows that were computed
  double wasted = 0;  // of these, those of requests that ended late
};

class CountingSink : public EncodeSink {
 public:
  explicit CountingSink(Counts& counts) : counts_(counts) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    ok = result.ok();
    ok ? ++counts_.answered : ++counts_.late;
  }
  bool ok = false;

 private:
  Counts& counts_;
};

struct SimulatedJob : Job<EncodeSink, EncodeResult> {
  int64_t true_steps = 1, computed = 0;
  void Expire(Clock::time_point) { Answer(OverdueError()); }
};

struct Scenario {
  double requests_per_second = 100;
  std::optional<double> deadline;
  int num_clients = 1;
  double fixed = 1e-3, row = 1e-3;  // seconds of a step, and of each of its rows
  double noise = 0.1;
  int32_t max_width = 256;
  int64_t max_steps = 40;  // a request takes 1 to this, uniformly; half of them say twice as many
};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario) : scenario_(scenario), random_(TestSeed()) {}

  void Run(double seconds) {
    const Clock::time_point end = now_ + Duration(seconds);
    while (now_ < end) Step();
  }
  // The device and everything else stand still.
  void Stall(double seconds) { stall_ = seconds; }
  void SetScenario(const Scenario& scenario) { scenario_ = scenario; }
  Counts TakeCounts() { return std::exchange(counts_, {}); }
  ServiceRate& rate() { return rate_; }
  // Answers a second of the device at its best.
  double Peak() const {
    const double steps = 0.5 * static_cast<double>(scenario_.max_steps + 1);
    return scenario_.max_width / (scenario_.fixed + scenario_.row * scenario_.max_width) / steps;
  }
  Clock::time_point now() const { return now_; }

 private:
  static Clock::duration Duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  double Exponential(double mean) {
    return mean * std::exponential_distribution<double>()(random_);
  }

  void Arrive(Clock::time_point at) {
    ++counts_.asked;
    auto job = std::make_unique<SimulatedJob>();
    job->sink = std::make_shared<CountingSink>(counts_);
    job->cancelled = cancelled_;
    job->client = std::to_string(random_() % static_cast<uint64_t>(scenario_.num_clients));
    job->rank.arrival = at;
    job->true_steps =
        1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(scenario_.max_steps));
    job->steps = random_() % 2 == 0 ? job->true_steps : 2 * job->true_steps;
    job->cost = job->steps;
    if (scenario_.deadline.has_value()) job->deadline = at + Duration(*scenario_.deadline);
    Outlook outlook;
    outlook.cost_ahead = waiting_.Look(
        [&](const WaitingWork& work) { return work.Ahead(0, job->client, job->cost); });
    outlook.cost_per_second = rate_.cost_per_second(at);
    outlook.service_seconds = rate_.SecondsFor(job->steps, at);
    if (job->deadline.has_value() && !outlook.Meets(*scenario_.deadline)) {
      ++counts_.refused;
      if (outlook.cost_ahead == 0) ++counts_.refused_first;
      EXPECT_GT(outlook.RetryAfter(*scenario_.deadline), 0);
      return;
    }
    job->waiting = *WaitingCount::Enter(waiting_, 1 << 30);
    job->waiting.Describe({0, job->client, job->cost, 0, at}, 1 << 30);
    job->work = WorkShare(work_, job->cost);
    jobs_.Add(std::move(job));
  }

  void Step() {
    std::vector<SimulatedJob*> running, waiting;
    const auto look = [&] {
      running.clear(), waiting.clear();
      for (const auto& job : jobs_.jobs()) {
        if (!job->done) (job->begun() ? running : waiting).push_back(job.get());
      }
    };
    look();
    const auto could_run =
        std::min<size_t>(jobs_.jobs().size(), static_cast<size_t>(scenario_.max_width));
    const auto ends = jobs_.EndOverdue(now_, rate_, !running.empty(),
                                       width_.StepSeconds(static_cast<int32_t>(could_run)));
    counts_.hopeless += ends.hopeless;
    look();
    const auto width = static_cast<size_t>(ends.deadlines_press ? width_.Enough(scenario_.max_width)
                                                                : scenario_.max_width);
    WaitingOrder order(now_);
    for (const SimulatedJob* job : waiting) order.Add(job->rank);
    std::ranges::stable_sort(waiting,
                             [&](const auto* a, const auto* b) { return order(a->rank, b->rank); });
    size_t admitted = 0;
    while (running.size() < width && admitted < waiting.size()) {
      jobs_.Begin(*waiting[admitted], now_);
      running.push_back(waiting[admitted++]);
    }
    if (running.empty()) {  // the time of an arrival
      const double gap = Exponential(1 / scenario_.requests_per_second);
      now_ += Duration(gap);
      Arrive(now_);
      return;
    }
    const auto rows = static_cast<int32_t>(running.size());
    double seconds = (scenario_.fixed + scenario_.row * rows) *
                     std::exp(scenario_.noise * std::normal_distribution<double>()(random_));
    seconds += std::exchange(stall_, 0.0);
    const Clock::time_point begin = now_;
    now_ += Duration(seconds);
    width_.AddStep(rows, rows, seconds);
    ServiceRate::Step step = {.seconds = seconds, .left_waiting = admitted < waiting.size()};
    for (SimulatedJob* job : running) {
      ++job->computed;
      ++counts_.work;
      step.served += job->work.Reach(job->computed);
      if (job->deadline.has_value() && *job->deadline <= now_)
        counts_.wasted += static_cast<double>(job->computed);
      if (job->computed < job->true_steps ||
          (job->deadline.has_value() && *job->deadline <= now_)) {
        continue;
      }
      step.served += job->work.Complete();
      ++step.answers;
      rate_.AddAnswer(
          job->steps,
          std::chrono::duration<double>(now_ - job->rank.arrival - job->queue_time).count(), now_);
      job->Answer(EncodeResult());
    }
    rate_.AddStep(step, now_);
    // What came meanwhile.
    for (double at = Exponential(1 / scenario_.requests_per_second); at < seconds;
         at += Exponential(1 / scenario_.requests_per_second)) {
      Arrive(begin + Duration(at));
    }
    jobs_.EndOverdue(now_, rate_, /*may_give_up=*/false);
    jobs_.RemoveDone([](std::unique_ptr<SimulatedJob>) {});
  }

  Scenario scenario_;
  std::mt19937_64 random_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
  Counts counts_;
  WaitingCounter waiting_;
  WorkCounter work_;
  ServiceRate rate_;
  RunningWidth width_;
  JobList<SimulatedJob> jobs_;
  double stall_ = 0;
};

TEST(OverloadTest, GoodputIsThePeakAtAnyLoad) {
  for (const double load : {1.15, 3.0, 10.0}) {
    for (const std::optional<double> deadline : {std::optional(1.0), std::optional(4.0)}) {
      for (const int clients : {1, 100}) {
        Scenario scenario = {.deadline = deadline, .num_clients = clients};
        Simulation simulation(scenario);
        scenario.requests_per_second = load * simulation.Peak();
        simulation.SetScenario(scenario);
        simulation.Run(10);
        simulation.TakeCounts();
        simulation.Run(30);
        const Counts counts = simulation.TakeCounts();
        SCOPED_TRACE(std::to_string(load) + "x, deadline " + std::to_string(*deadline) + ", " +
                     std::to_string(clients) + " clients");
        EXPECT_GE(counts.answered, 0.9 * 30 * simulation.Peak())
            << "late " << counts.late << ", refused " << counts.refused << ", hopeless "
            << counts.hopeless;
        EXPECT_LE(counts.wasted, 0.05 * counts.work);
        EXPECT_GT(counts.refused, 0);
      }
    }
  }
}

// All that can run would take longer together than any of them may: at once, before a request has
// ever been answered.
TEST(OverloadTest, GoodputIsThePeakWhereTheWholeWidthIsTooSlow) {
  for (const double deadline : {1.0, 4.0}) {
    Scenario scenario = {.deadline = deadline};
    scenario.row = deadline / 256 / 10;  // 256 answers of 20 steps each take twice the deadline
    Simulation simulation(scenario);
    scenario.requests_per_second = 10 * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(5 * deadline);
    simulation.TakeCounts();
    simulation.Run(10 * deadline);
    const Counts counts = simulation.TakeCounts();
    EXPECT_GE(counts.answered, 0.85 * 10 * deadline * simulation.Peak())
        << "late " << counts.late << ", refused " << counts.refused;
  }
}

TEST(OverloadTest, NobodyIsRefusedWithoutLoadOrWithoutDeadlines) {
  for (const double load : {0.05, 0.5}) {
    Scenario scenario = {.deadline = 1};
    Simulation simulation(scenario);
    scenario.requests_per_second = load * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(60);
    const Counts counts = simulation.TakeCounts();
    EXPECT_EQ(counts.refused + counts.hopeless, 0) << load;
    EXPECT_GE(counts.answered, counts.asked - 50);
  }
  Scenario scenario;
  Simulation simulation(scenario);
  scenario.requests_per_second = 2 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(20);
  const Counts counts = simulation.TakeCounts();
  EXPECT_EQ(counts.refused + counts.hopeless + counts.late, 0);
  EXPECT_GE(counts.answered, 0.93 * 20 * simulation.Peak());
}

// An estimate that is wrong by orders of magnitude keeps nobody out for long.
TEST(OverloadTest, AWrongEstimateIsCorrectedWithinSeconds) {
  Scenario scenario = {.deadline = 1};
  Simulation simulation(scenario);
  scenario.requests_per_second = 3 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  const auto poison = [&] {
    for (int i = 0; i < 50; ++i) simulation.rate().AddAnswer(1, 100, simulation.now());
    simulation.rate().AddStep({.seconds = 1000, .served = 1, .answers = 9, .left_waiting = true},
                              simulation.now());
  };
  poison();
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(10);
  EXPECT_GE(simulation.TakeCounts().answered, 0.9 * 10 * simulation.Peak());
  // With little load too, where there are few answers to learn from.
  scenario.requests_per_second = 0.2 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(5);
  poison();
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(30);
  const Counts counts = simulation.TakeCounts();
  EXPECT_EQ(counts.refused, 0);
  EXPECT_GE(counts.answered, 0.98 * counts.asked);
}

TEST(OverloadTest, AfterAStallItIsAsBefore) {
  Scenario scenario = {.deadline = 1};
  Simulation simulation(scenario);
  scenario.requests_per_second = 1.15 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  simulation.Stall(20);
  simulation.Run(25);
  simulation.TakeCounts();
  simulation.Run(10);
  EXPECT_GE(simulation.TakeCounts().answered, 0.85 * 10 * simulation.Peak());
}

TEST(OverloadTest, RandomSchedulesNeverRefuseTheFirst) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < (kSanitized ? 6 : 40); ++round) {
    const auto draw = [&](double least, double most) {
      return least * std::pow(most / least, std::generate_canonical<double, 53>(random));
    };
    Scenario scenario = {.deadline = draw(0.05, 20),
                         .num_clients = 1 + static_cast<int>(random() % 20),
                         .fixed = draw(1e-4, 1e-1),
                         .row = draw(1e-5, 1e-2),
                         .noise = draw(0.01, 1),
                         .max_width = 1 + static_cast<int32_t>(random() % 300),
                         .max_steps = 1 + static_cast<int64_t>(random() % 200)};
    Simulation simulation(scenario);
    for (int phase = 0; phase < 3; ++phase) {
      scenario.requests_per_second = draw(0.1, 5) * simulation.Peak();
      simulation.SetScenario(scenario);
      simulation.Run(std::min(20.0, 3000 / scenario.requests_per_second));
      const Counts counts = simulation.TakeCounts();
      EXPECT_EQ(counts.refused_first, 0);
    }
    // And however it went, a lone request is answered where its deadline allows it.
    scenario.deadline = 1000;
    scenario.requests_per_second = 0.01 * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(20 / scenario.requests_per_second);
    simulation.TakeCounts();
    simulation.Run(20 / scenario.requests_per_second);
    const Counts counts = simulation.TakeCounts();
    EXPECT_EQ(counts.refused + counts.hopeless, 0);
    EXPECT_GT(counts.answered, 0);
  }
}

TEST(OutlookTest, SaysWhatItKnows) {
  Outlook outlook;
  EXPECT_EQ(*outlook.queue_seconds(), 0);
  EXPECT_TRUE(outlook.Meets(1e-9));
  outlook.service_seconds = 100;
  EXPECT_TRUE(outlook.Meets(1e-9));  // nobody is before it
  outlook.cost_ahead = 50;
  EXPECT_FALSE(outlook.queue_seconds().has_value());
  EXPECT_TRUE(outlook.Meets(1));  // how long those before it take is not known
  outlook.cost_per_second = 100;
  outlook.service_seconds = 0.3;
  EXPECT_NEAR(*outlook.queue_seconds(), 0.5, 1e-12);
  EXPECT_TRUE(outlook.Meets(1.01));
  EXPECT_FALSE(outlook.Meets(0.99));
  EXPECT_NEAR(outlook.RetryAfter(0.5), 0.4, 1e-9);
  EXPECT_EQ(outlook.RetryAfter(1), Outlook::kLeastRetry);
  outlook.cost_ahead = 1 << 30;
  EXPECT_EQ(outlook.RetryAfter(1), Outlook::kMostRetry);
}

}  // namespace
}  // namespace beamline::overload_test
