// Measures the host time per step for waiting requests: some expire, some start, others arrive.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/service_rate.h"
#include "engine/scheduling/waiting_turns.h"

namespace beamline {
namespace {

class NoSink : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult>) override {}
};

class Queue {
 public:
  Queue(int64_t size, bool has_deadlines, int32_t num_priorities)
      : has_deadlines_(has_deadlines), num_priorities_(num_priorities) {
    rate_.AddAnswer(/*steps=*/30, /*seconds=*/0.3, now_);
    // The requests arrived at an even rate; the first one has almost reached its deadline.
    const auto age = std::chrono::seconds(3);
    for (int64_t i = size; i > 0; --i) Come(now_ - age * i / size);
  }

  // A step of 8 ms: `count` waiting requests start, and as many arrive as end.
  void Step(int count) {
    now_ += std::chrono::milliseconds(8);
    benchmark::DoNotOptimize(jobs_.EndOverdue(now_, rate_, /*may_give_up=*/true));
    turns_.Start(jobs_.turns(), now_);
    begun_.clear();
    for (int i = 0; i < count; ++i) begun_.push_back(turns_.Next());
    for (EncodeJob* job : begun_) {
      jobs_.Begin(*job, now_);
      job->Answer(EncodeResult());
    }
    int64_t ended = 0;
    jobs_.RemoveDone([&](std::unique_ptr<EncodeJob>) { ++ended; });
    for (; ended > 0; --ended) Come(now_);
  }

 private:
  void Come(Clock::time_point now) {
    auto job = std::make_unique<EncodeJob>();
    job->rank = {.priority = static_cast<int32_t>(random_() % num_priorities_), .arrival = now};
    job->waiting = *WaitingCount::Enter(counter_, std::numeric_limits<int64_t>::max());
    job->sink = sink_;
    job->cancellation = std::make_shared<Cancellation>();
    job->steps = 8 + static_cast<int64_t>(random_() % 49);
    job->cost = job->steps;
    if (has_deadlines_) job->deadline = now + std::chrono::seconds(4);
    job->waiting.Describe({job->rank.priority, "", job->cost, 1, now},
                          std::numeric_limits<int64_t>::max());
    jobs_.Add(std::move(job));
  }

  const bool has_deadlines_;
  const uint64_t num_priorities_;
  std::mt19937_64 random_{7};
  Clock::time_point now_{std::chrono::hours(1)};
  WaitingCounter counter_;  // outlives the jobs
  const std::shared_ptr<NoSink> sink_ = std::make_shared<NoSink>();
  ServiceRate rate_;
  JobList<EncodeJob> jobs_;
  WaitingTurns<EncodeJob> turns_;
  std::vector<EncodeJob*> begun_;
};

void BM_Step(benchmark::State& state) {
  Queue queue(state.range(0), state.range(1) != 0, static_cast<int32_t>(state.range(2)));
  for (auto _ : state) queue.Step(/*count=*/2);
}
BENCHMARK(BM_Step)
    ->ArgNames({"waiting", "deadlines", "priorities"})
    ->ArgsProduct({{64, 512, 4096}, {0, 1}, {1, 6}});

}  // namespace
}  // namespace beamline
