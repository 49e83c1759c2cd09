// Overload on a simulated clock: what is accepted, given up and run by the same classes that a
// replica uses, against a device whose steps take a known time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
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
#include "engine/serving/refused_length.h"
#include "tests/test_seed.h"

namespace beamline::overload_simulation {

struct Counts {
  int asked_of_others = 0, refused_of_others = 0;  // than the first client
  int asked = 0, refused = 0, refused_first = 0, answered = 0, late = 0, hopeless = 0;
  double asked_steps = 0, answered_steps = 0;  // which the requests take, in all
  int asked_long = 0, answered_long = 0;       // of the longest tenth
  double work = 0;                             // steps of rows that were computed
  double wasted = 0;                           // of these, those of requests that ended late
  std::vector<double> served;                  // by client: what its answers cost
  std::vector<std::vector<double>> times;      // by client: seconds until its answers
  struct Wait {
    double told = 0, real = 0;  // seconds
    int32_t priority = 0;
    bool has_deadline = false;
  };
  std::vector<Wait> waits;  // of those that began and had been told
};

struct SimulatedJob : Job<EncodeSink, EncodeResult> {
  int64_t true_steps = 1, computed = 0;
  size_t client_number = 0;
  bool running = false;
  int64_t used_tokens() const { return 0; }
  void Expire(Clock::time_point) { Answer(OverdueError()); }
};

class CountingSink : public EncodeSink {
 public:
  explicit CountingSink(Counts& counts) : counts_(counts) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    result.ok() ? ++counts_.answered : ++counts_.late;
  }

 private:
  Counts& counts_;
};

struct Scenario {
  double requests_per_second = 100;
  std::optional<double> deadline;
  int num_clients = 1;
  double fixed = 1e-3, row = 1e-3;  // seconds of a step, and of each of its rows
  double noise = 0.1;
  int32_t max_width = 256;
  int64_t max_steps = 40;  // a request takes 1 to this, uniformly; half of them say twice as many
  bool honest = false;     // none of them does
  double greed = 0;  // the share of all requests that the first client makes, beside its turns
  int64_t max_waiting = 1 << 30;
  int32_t max_priority = 0;     // 0 to this, uniformly
  int32_t greedy_priority = 0;  // the first client's, where that is more
  double deadline_share = 1;
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
  Counts TakeCounts() {
    Counts counts = std::exchange(counts_, {});
    counts.served.resize(static_cast<size_t>(scenario_.num_clients));
    counts.times.resize(static_cast<size_t>(scenario_.num_clients));
    return counts;
  }
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

  // As ReplicaPool::Expect.
  Outlook ExpectOf(const SimulatedJob& job, Clock::time_point at) {
    Outlook outlook;
    outlook.cost_per_second = rate_.cost_per_second(at);
    if (!outlook.cost_per_second.has_value()) {
      outlook.cost_per_second = rate_.expected_cost_per_second();
      outlook.rate_is_expected = true;
    }
    waiting_.Look([&](const WaitingWork& work) {
      const auto before = work.Ahead({.priority = job.rank.priority,
                                      .client = job.client,
                                      .most_each = rate_.LongCost(),
                                      .cost_per_second = outlook.cost_per_second,
                                      .width = last_width_,
                                      .now = at});
      outlook.cost_ahead = before.waiting;
      outlook.cost_to_come = before.to_come;
    });
    const double per_step = rate_.SecondsForNew(1, at);
    outlook.service_seconds = per_step * static_cast<double>(job.steps);
    outlook.longer_seconds = per_step * refused_length_.steps(at);
    return outlook;
  }
  void Arrive(Clock::time_point at) {
    ++counts_.asked;
    auto job = std::make_unique<SimulatedJob>();
    job->sink = std::make_shared<CountingSink>(counts_);
    job->client_number = random_() % static_cast<uint64_t>(scenario_.num_clients);
    if (scenario_.greed > 0 && std::generate_canonical<double, 53>(random_) < scenario_.greed) {
      job->client_number = 0;
    }
    job->client = std::to_string(job->client_number);
    job->rank.arrival = at;
    job->true_steps =
        1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(scenario_.max_steps));
    counts_.asked_steps += static_cast<double>(job->true_steps);
    counts_.asked_long += IsLong(*job) ? 1 : 0;
    job->steps = scenario_.honest || random_() % 2 == 0 ? job->true_steps : 2 * job->true_steps;
    job->cost = job->steps;
    if (scenario_.max_priority > 0) {
      job->rank.priority =
          static_cast<int32_t>(random_() % static_cast<uint64_t>(scenario_.max_priority + 1));
    }
    if (job->client_number == 0) {
      job->rank.priority = std::max(job->rank.priority, scenario_.greedy_priority);
    } else {
      ++counts_.asked_of_others;
    }
    if (scenario_.deadline.has_value() &&
        (scenario_.deadline_share >= 1 ||
         std::generate_canonical<double, 53>(random_) < scenario_.deadline_share)) {
      job->deadline = at + Duration(*scenario_.deadline);
    }
    const Outlook outlook = ExpectOf(*job, at);
    if (job->deadline.has_value() && !outlook.Meets(*scenario_.deadline)) {
      ++counts_.refused;
      if (job->client_number != 0) ++counts_.refused_of_others;
      if (outlook.service_seconds <= Outlook::kShare * *scenario_.deadline) {
        refused_length_.Add(job->steps, at);
      }
      if (outlook.cost_ahead == 0) ++counts_.refused_first;
      EXPECT_GT(outlook.RetryAfter(*scenario_.deadline), 0);
      return;
    }
    if (outlook.queue_seconds().has_value()) {
      job->expected_queue = Duration(*outlook.queue_seconds());
    }
    auto entered = WaitingCount::Enter(waiting_, scenario_.max_waiting, job->client);
    if (!entered.has_value()) {
      ++counts_.refused;
      return;
    }
    job->waiting = *std::move(entered);
    job->waiting.Describe({job->rank.priority, job->client, job->cost, 0, at}, 1 << 30);
    job->work = WorkShare(work_, job->cost);
    jobs_.Add(std::move(job));
  }

  void Step() {
    std::vector<SimulatedJob*> running, waiting;
    const auto look = [&] {
      running.clear(), waiting.clear();
      for (const auto& job : jobs_.jobs()) {
        if (!job->done) (job->running ? running : waiting).push_back(job.get());
      }
    };
    look();
    const auto ends = jobs_.EndOverdue(now_, rate_, !running.empty());
    counts_.hopeless += ends.hopeless;
    look();
    const int32_t most = width_.Within(ends.step_seconds, scenario_.max_width);
    const auto width = static_cast<size_t>(most);
    last_width_ = most;
    Expect(most, static_cast<int32_t>(std::min(width, running.size() + waiting.size())));
    WaitingOrder order(now_);
    for (const SimulatedJob* job : waiting) order.Add(job->rank);
    std::ranges::stable_sort(waiting,
                             [&](const auto* a, const auto* b) { return order(a->rank, b->rank); });
    const size_t left = waiting.size() - Admit(width, waiting, running);
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
    ServiceRate::Step step = {.seconds = seconds, .left_waiting = left > 0};
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
      AddAnswered(*job, step);
      rate_.AddAnswer(
          job->steps,
          std::chrono::duration<double>(now_ - job->rank.arrival - job->queue_time).count(), now_);
      counts_.answered_steps += static_cast<double>(job->true_steps);
      counts_.answered_long += IsLong(*job) ? 1 : 0;
      CountAnswer(*job);
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

  // As the scheduler and its planner. Returns how many began.
  size_t Admit(size_t width, const std::vector<SimulatedJob*>& waiting,
               std::vector<SimulatedJob*>& running) {
    std::map<size_t, int> of_clients;
    for (const SimulatedJob* job : running) ++of_clients[job->client_number];
    size_t admitted = 0;
    for (SimulatedJob* job : waiting) {
      const bool is_new = !of_clients.contains(job->client_number);
      if (running.size() >= width && of_clients.size() >= width) break;
      if (running.size() >= width && !is_new) continue;
      if (running.size() == static_cast<size_t>(scenario_.max_width) &&
          !PutBackOne(*job, of_clients, running)) {
        break;
      }
      if (!job->begun() && job->expected_queue.count() >= 0) {
        counts_.waits.push_back({std::chrono::duration<double>(job->expected_queue).count(),
                                 std::chrono::duration<double>(now_ - job->rank.arrival).count(),
                                 job->rank.priority, job->deadline.has_value()});
      }
      jobs_.Begin(*job, now_);
      job->running = true;
      ++of_clients[job->client_number];
      running.push_back(job);
      ++admitted;
    }
    return admitted;
  }
  // Of the client that runs the most, the last one.
  bool PutBackOne(const SimulatedJob& newcomer, std::map<size_t, int>& of_clients,
                  std::vector<SimulatedJob*>& running) {
    const auto most = std::ranges::max_element(
        of_clients, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most->second < 2) return false;
    const auto last = std::find_if(running.rbegin(), running.rend(), [&](const auto* job) {
      return job->client_number == most->first;
    });
    (*last)->running = false;
    (*last)->rank.fair_tag = std::max((*last)->rank.fair_tag, newcomer.rank.fair_tag + 1);
    --most->second;
    running.erase(std::next(last).base());
    return true;
  }

  // As GenerateLoop::SetWidth.
  void Expect(int32_t width, int32_t next) {
    const auto pace = width_.PaceOf(width), next_pace = width_.PaceOf(next);
    rate_.Expect(pace.has_value() ? pace->tokens_per_second : 0,
                 next_pace.has_value() ? next_pace->step_seconds : 0);
  }

  static void AddAnswered(SimulatedJob& job, ServiceRate::Step& step) {
    const int64_t unneeded = job.work.Complete();
    step.served += unneeded;
    step.unneeded += unneeded;
    step.answered_cost += job.cost;
    ++step.answers;
  }
  bool IsLong(const SimulatedJob& job) const {
    return 10 * job.true_steps > 9 * scenario_.max_steps;
  }
  void CountAnswer(const SimulatedJob& job) {
    if (counts_.served.size() <= job.client_number) {
      counts_.served.resize(job.client_number + 1);
      counts_.times.resize(job.client_number + 1);
    }
    counts_.served[job.client_number] += static_cast<double>(job.cost);
    counts_.times[job.client_number].push_back(
        std::chrono::duration<double>(now_ - job.rank.arrival).count());
  }

  Scenario scenario_;
  std::mt19937_64 random_;
  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
  Counts counts_;
  WaitingCounter waiting_;
  WorkCounter work_;
  ServiceRate rate_;
  RefusedLength refused_length_;
  RunningWidth width_;
  JobList<SimulatedJob> jobs_;
  double stall_ = 0;
  int32_t last_width_ = 0;
};

}  // namespace beamline::overload_simulation
