// A pool of replicas without replicas: the router, the states and the rerun rule of the product
// under a clock of its own, with faults, drains and loads that fail. Everything follows from the
// seed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "engine/serving/attempt.h"
#include "engine/serving/pool_state.h"

namespace beamline {

class PoolSimulator {
 public:
  struct Options {
    int num_replicas = 2;
    int num_requests = 50;
    double mean_gap_ms = 5;    // between arrivals; 0: all at once
    double mean_fault_ms = 0;  // between faults of the pool; 0: none
    double mean_drain_ms = 0;  // between restarts that an operator asks for; 0: none
    double failing_loads = 0;  // share of the loads
    bool devices_stay_whole = true;
    double streams = 0.3;    // share of the requests
    double cancelled = 0.0;  // share
    double deadlines = 0.0;  // share
  };

  struct Request {
    explicit Request(std::optional<Clock::time_point> deadline) : attempt(deadline) {}
    Attempt attempt;
    int64_t tokens = 0;
    std::vector<Beginning> beginnings;
    bool streams = false;
    bool cancelled = false;
    bool handed_out = false;
    int runs = 0;     // times that a replica was given it
    int answers = 0;  // must come to be 1
    absl::Status answer;
  };

  PoolSimulator(const Options& options, uint64_t seed)
      : options_(options),
        random_(seed),
        state_(options.num_replicas, seed, RestartPolicy{}),
        replicas_(static_cast<size_t>(options.num_replicas)) {}

  // Until nothing happens any more.
  void Run() {
    double arrival = 0;
    for (int i = 0; i < options_.num_requests; ++i) {
      At(arrival, [this] { Arrive(); });
      arrival += options_.mean_gap_ms > 0 ? Exponential(options_.mean_gap_ms) : 0;
    }
    const double until = std::max(arrival, 1.0);
    for (double t = 0; options_.mean_fault_ms > 0 && t < until;) {
      t += Exponential(options_.mean_fault_ms);
      At(t, [this] { Fault(Pick()); });
    }
    for (double t = 0; options_.mean_drain_ms > 0 && t < until;) {
      t += Exponential(options_.mean_drain_ms);
      At(t, [this] { Drain(Pick()); });
    }
    while (!events_.empty()) {
      auto event = events_.begin();
      now_ms_ = event->first.first;
      const std::function<void()> happens = std::move(event->second);
      events_.erase(event);
      happens();
    }
  }

  const std::vector<std::unique_ptr<Request>>& requests() const { return requests_; }
  const PoolState& state() const { return state_; }
  double now_ms() const { return now_ms_; }
  int64_t num_faults() const { return num_faults_; }
  int64_t num_restarts() const { return num_restarts_; }
  // Tokens that a replica computed.
  int64_t computed(int replica) const { return replicas_[static_cast<size_t>(replica)].computed; }
  // The first thing that must not be; empty: none.
  const std::string& broken() const { return broken_; }

 private:
  static constexpr double kMsPerToken = 0.1;

  struct Replica {
    std::vector<Request*> queue;  // the first one computes
    uint64_t epoch = 0;           // what was planned in an earlier one does not happen
    bool worked = false;
    int64_t computed = 0;
  };

  double Exponential(double mean) { return std::exponential_distribution(1 / mean)(random_); }
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }
  int Pick() { return std::uniform_int_distribution(0, options_.num_replicas - 1)(random_); }
  void At(double ms, std::function<void()> happens) {
    events_.emplace(std::pair(ms, num_events_++), std::move(happens));
  }
  void After(double ms, std::function<void()> happens) { At(now_ms_ + ms, std::move(happens)); }
  Clock::time_point Now() const {
    return Clock::time_point(std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(now_ms_)));
  }
  void Expect(bool holds, const char* what) {
    if (!holds && broken_.empty()) broken_ = what;
  }
  static absl::Status Ended() {
    absl::Status status = absl::UnavailableError("the replica ended");
    status.SetPayload(kReplicaEndedPayload, absl::Cord());
    return status;
  }

  void Arrive() {
    std::optional<Clock::time_point> deadline;
    if (Chance(options_.deadlines)) deadline = Now() + std::chrono::milliseconds(30);
    Request& request = *requests_.emplace_back(std::make_unique<Request>(deadline));
    request.tokens = std::uniform_int_distribution<int64_t>(20, 300)(random_);
    request.streams = Chance(options_.streams);
    const auto family = std::uniform_int_distribution<uint64_t>(0, 9)(random_);
    if (family < 5) request.beginnings = {{family + 1, 16}, {family + 101, 32}};
    if (Chance(options_.cancelled)) After(10, [&request] { request.cancelled = true; });
    Route(request);
  }

  void Route(Request& request) {
    std::vector<ReplicaView> views(replicas_.size());
    for (size_t i = 0; i < replicas_.size(); ++i) {
      views[i].requests = static_cast<int64_t>(replicas_[i].queue.size());
      for (const Request* waiting : replicas_[i].queue) views[i].tokens += waiting->tokens;
      views[i].seconds_per_token = kMsPerToken / 1000;
    }
    const std::optional<int> chosen = state_.Choose(views, request.beginnings);
    Expect(chosen.has_value() == (state_.num_up() > 0), "who can answer was not chosen");
    if (!chosen.has_value()) return End(request, Ended());
    Expect(state_.phase(*chosen) == ReplicaPhase::kUp, "who cannot answer was chosen");
    ++request.runs;
    Replica& replica = replicas_[static_cast<size_t>(*chosen)];
    replica.queue.push_back(&request);
    if (replica.queue.size() == 1) Compute(*chosen);
  }

  void Compute(int number) {
    Replica& replica = replicas_[static_cast<size_t>(number)];
    Request& request = *replica.queue.front();
    const double ms = kMsPerToken * static_cast<double>(request.tokens);
    const uint64_t epoch = replica.epoch;
    const auto in_epoch = [this, number, epoch] {
      return replicas_[static_cast<size_t>(number)].epoch == epoch;
    };
    if (request.streams) {
      After(ms / 4, [&request, in_epoch] {
        if (!in_epoch()) return;
        request.attempt.HandOut();
        request.handed_out = true;
      });
    }
    After(ms, [this, number, &request, in_epoch] {
      if (!in_epoch()) return;
      Replica& own = replicas_[static_cast<size_t>(number)];
      own.queue.erase(own.queue.begin());
      own.worked = true;
      own.computed += request.tokens;
      End(request, absl::OkStatus());
      if (!own.queue.empty()) Compute(number);
    });
  }

  // As RerunSink.
  void End(Request& request, absl::Status status) {
    if (!status.ok() &&
        request.attempt.OnError(status, request.cancelled, Now()) == Attempt::Next::kRunAgain) {
      Expect(!request.handed_out, "a request was begun again after some of its answer had left");
      return Route(request);
    }
    ++request.answers;
    request.answer = status;
  }

  void EndAll(int number) {
    Replica& replica = replicas_[static_cast<size_t>(number)];
    ++replica.epoch;
    for (Request* request : std::exchange(replica.queue, {})) End(*request, Ended());
  }

  void Fault(int number) {
    const ReplicaPhase phase = state_.phase(number);
    if (phase != ReplicaPhase::kUp && phase != ReplicaPhase::kDraining) return;
    ++num_faults_;
    Replica& replica = replicas_[static_cast<size_t>(number)];
    state_.Fail(number, options_.devices_stay_whole, std::exchange(replica.worked, false), Now());
    EndAll(number);
    PlanRestart();
  }

  void PlanRestart() {
    const std::optional<int> next = state_.NextRestart();
    if (!next.has_value()) return;
    const double wait =
        std::chrono::duration<double, std::milli>(*state_.restart_at(*next) - Now()).count();
    After(std::max(wait, 0.0), [this] {
      const std::optional<int> due = state_.NextRestart();
      if (!due.has_value()) return;
      if (*state_.restart_at(*due) > Now()) return PlanRestart();
      Load(*due);
    });
  }

  void Load(int number) {
    state_.BeginRestart(number);
    EndAll(number);
    After(50, [this, number] {
      const bool succeeds = !Chance(options_.failing_loads);
      ++num_restarts_;
      state_.EndRestart(number, succeeds, options_.devices_stay_whole, Now());
      PlanRestart();
    });
  }

  // As ReplicaPool::Restart.
  void Drain(int number) {
    if (state_.phase(number) != ReplicaPhase::kUp || state_.num_up() == 1) return;
    state_.BeginDrain(number);
    After(20, [this, number] {  // its grace
      if (state_.phase(number) == ReplicaPhase::kDraining) Load(number);
    });
  }

  const Options options_;
  std::mt19937_64 random_;
  PoolState state_;
  std::vector<Replica> replicas_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::map<std::pair<double, int64_t>, std::function<void()>> events_;
  int64_t num_events_ = 0;
  double now_ms_ = 0;
  int64_t num_faults_ = 0, num_restarts_ = 0;
  std::string broken_;
};

}  // namespace beamline
