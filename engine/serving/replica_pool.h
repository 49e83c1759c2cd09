// The replicas of one version of a model: who of them gets a request, what becomes of one that
// fails, and how one is restarted while the others answer. Decides nothing itself that can be
// decided without threads: that is PoolState's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "engine/api/engine.h"
#include "engine/loading/loaded_model.h"
#include "engine/serving/outlook.h"
#include "engine/serving/pool_state.h"
#include "engine/serving/refused_length.h"
#include "engine/serving/replica.h"

namespace beamline {

// Who asks for an answer, and until when.
struct Asker {
  int32_t priority = 0;
  std::string client;
  std::optional<Clock::time_point> deadline;
  Clock::time_point arrival;
  bool is_last = false;  // behind all that wait
};

// What is asked for, as far as it is known.
struct Demand {
  int64_t steps = 0;  // until the answer is of use
};

// Which limits of the queue a request must keep: one that is begun again has kept them once.
enum class QueueLimits : uint8_t { kAll, kNone };

// Any thread. The mutex is held for reading numbers and for choosing, never while something
// computes, loads or ends.
class ReplicaPool {
 public:
  // Loads the replica of this number, its memory accounted before it is taken.
  using Load = std::function<absl::StatusOr<std::unique_ptr<LoadedModel>>(int replica)>;
  struct Options {
    int num_replicas = 1;
    Load load;                           // by one thread at a time; outlives Stop
    EngineObserver* observer = nullptr;  // may be null; else outlives the pool
    RestartPolicy restart = {};
    uint64_t seed = 0;  // of the router's draws
  };

  // Loads all replicas, one behind the other, or none: an error is that of the first that fails.
  static absl::StatusOr<std::shared_ptr<ReplicaPool>> Create(Options options);
  // REQUIRES: Stop was called, since a request that ends may be the last that holds the pool.
  ~ReplicaPool() = default;
  ReplicaPool(const ReplicaPool&) = delete;
  ReplicaPool& operator=(const ReplicaPool&) = delete;

  const ModelFacts& facts() const { return *facts_; }
  int size() const { return static_cast<int>(slots_.size()); }
  // Of the requests that are in the pool, from their acceptance until after their answer.
  TicketCounter& tickets() { return tickets_; }
  WaitingCounter& waiting() { return waiting_; }

  // OK while a replica can answer; else UNAVAILABLE, with kReplicaEndedPayload when one will again
  // without anybody's doing.
  absl::Status status() const;
  // Why it was stopped; OK before.
  absl::Status ended() const {
    std::lock_guard lock(mutex_);
    return end_;
  }
  // What a request that comes at `now` has before it; without it, at this moment.
  Outlook Expect(const Asker& asker, const Demand& demand,
                 std::optional<Clock::time_point> now = std::nullopt) const;
  // Of one that everybody who waits goes before.
  Outlook ExpectBehindAll(Clock::time_point now) const;
  // The outlook; RESOURCE_EXHAUSTED with kRefusedByDeadline when it does not meet the deadline, or
  // would leave none of the room that longer requests are refused for.
  absl::StatusOr<Outlook> CheckDeadline(const Asker& asker, const Demand& demand) const;
  // Counts a request, whose tokens are known now, among those that wait. RESOURCE_EXHAUSTED when
  // it cannot keep its deadline, or when its tokens are too many beside those that wait.
  template <typename JobType>
  absl::Status Queue(JobType& job, QueueLimits limits);
  // Hands the request to a replica, or answers it with status().
  void Submit(std::unique_ptr<Group> job);
  void Submit(std::unique_ptr<EncodeJob> job);
  void CountRerun() { ++reruns_; }

  // As Engine::RestartReplica. `quit`: gives up waiting when it says so.
  absl::Status Restart(int replica, std::chrono::steady_clock::time_point deadline,
                       const std::function<bool()>& quit);
  // Ends all replicas and what restarts them: requests that are there or come get `why`. Not twice
  // at a time.
  void Stop(const absl::Status& why);

  // Told of changes; earlier listeners are told no more when it returns. Either may be empty.
  // `on_end`: told of the fault when the last replica has failed for good, at once when it has.
  using Listener = std::function<void(const ReplicaChange& change)>;
  using EndListener = std::function<void(const ModelInfo& model, const absl::Status& fault)>;
  void Listen(Listener on_change);
  void ListenForEnd(EndListener on_end);

  // For whoever looks on.
  std::vector<ReplicaInfo> Replicas() const;
  // Adds what only grows, of replicas that there are no more too.
  void AddCounters(ModelStats& stats) const;
  // Adds the rest.
  void AddState(ModelStats& stats) const;
  // What each replica has, as Engine::Snapshot.
  void AddSnapshots(std::chrono::milliseconds patience,
                    std::vector<ReplicaSnapshot>& snapshots) const;
  // As Engine::ReturnIdleMemory.
  void ReturnIdleMemory() const {
    for (int i = 0; i < size(); ++i) {
      if (const auto idle = replica(i); idle != nullptr) idle->ReturnIdleMemory();
    }
  }
  // Host memory that the replicas may still come to write, beyond what they hold now.
  int64_t PromisedHostBytes() const;
  // Null while it is not loaded.
  std::shared_ptr<Replica> replica(int number) const;

 private:
  struct Slot {
    std::shared_ptr<Replica> replica;  // null while it is not loaded
    std::string device;                // that it is on, or was
    std::string description;
    bool on_gpu = false;
    // After a load that failed; of processes it fails for one that is not there yet.
    bool may_load_again = true;
  };

  ReplicaPool(Options options, std::vector<std::unique_ptr<LoadedModel>> models);
  template <typename JobType>
  void Route(std::unique_ptr<JobType> job, std::span<const Beginning> beginnings);
  // What the replicas serve, and the cost above which a request is a long one.
  void AddService(const Demand& demand, Clock::time_point now, Outlook& outlook,
                  WaitingWork::Newcomer& newcomer) const;
  absl::Status TooManyTokens(int64_t tokens, int64_t sum) const;
  std::vector<ReplicaView> Views() const;  // REQUIRES: mutex_
  // Of those that are up; nullopt: none. REQUIRES: mutex_.
  std::optional<int> Choose(std::span<const Beginning> beginnings) {
    if (size() == 1) return state_.num_up() > 0 ? std::optional(0) : std::nullopt;
    std::vector<ReplicaView> views = Views();
    return state_.Choose(views, beginnings);
  }
  absl::Status StatusLocked() const;  // REQUIRES: mutex_
  // REQUIRES: mutex_, or nobody else knows the pool.
  void Install(int number, std::unique_ptr<LoadedModel> model);
  // RESOURCE_EXHAUSTED where the system has no thread for the replica. REQUIRES: mutex_.
  absl::Status TryInstall(int number, std::unique_ptr<LoadedModel> model);
  void OnFault(int number, const Replica* failed, const absl::Status& fault);
  // REQUIRES: it is kRestarting, by this thread. Ends what is there and loads anew.
  absl::Status Reload(int number, const absl::Status& why);
  absl::Status CheckCanDrain(int number) const;  // REQUIRES: mutex_
  void StartMender();                            // REQUIRES: mutex_
  void Mend();
  ReplicaChange ChangeOf(int number, std::string reason) const;  // REQUIRES: mutex_
  // REQUIRES: telling_.
  void Tell(const ReplicaChange& change) const;

  const Options options_;
  TicketCounter tickets_;
  WaitingCounter waiting_;
  mutable RefusedLength refused_length_;
  std::atomic<uint64_t> reruns_ = 0;
  std::unique_ptr<const ModelFacts> facts_;

  std::mutex reloading_;  // taken first: ending and loading replicas is one thread's at a time
  mutable std::mutex telling_;  // taken before mutex_; changes are told of in their order
  Listener on_change_;          // guarded by telling_
  EndListener on_end_;          // guarded by telling_

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  PoolState state_;
  std::vector<Slot> slots_;  // their number never changes
  absl::Status last_fault_;
  absl::Status end_;  // why the pool has ended; OK: it has not
  ModelStats past_;   // counters of replicas that were replaced
  std::thread mender_;
};

template <typename JobType>
absl::Status ReplicaPool::Queue(JobType& job, QueueLimits limits) {
  int64_t most_tokens = std::numeric_limits<int64_t>::max();
  if (limits == QueueLimits::kAll) {
    most_tokens = facts_->max_queued_tokens();
    const Asker asker = {job.rank.priority, job.client, job.deadline, job.rank.arrival};
    BEAMLINE_ASSIGN_OR_RETURN(const Outlook outlook, CheckDeadline(asker, {job.steps_to_use()}));
    if (const std::optional<double> queue = outlook.queue_seconds(); queue.has_value()) {
      job.expected_queue = std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(*queue));
    }
  }
  const std::optional<int64_t> sum = job.waiting.Describe(
      {job.rank.priority, job.client, job.cost, job.input_tokens, job.rank.arrival}, most_tokens);
  if (sum.has_value()) return TooManyTokens(job.input_tokens, *sum);
  return absl::OkStatus();
}

// What a request has at a model from its acceptance until after its answer.
struct Place {
  std::shared_ptr<ReplicaPool> pool;
  Ticket ticket;
};

}  // namespace beamline
