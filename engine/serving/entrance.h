// The way into the engine, the same for requests of every kind: checked, counted in or refused,
// tokenized, handed to a replica of the pool. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/worker_pool.h"
#include "engine/api/engine.h"
#include "engine/scheduling/job.h"
#include "engine/serving/replica_pool.h"
#include "engine/serving/rerun_sink.h"
#include "engine/serving/tokenizing.h"

namespace beamline {

class Entrance {
 public:
  explicit Entrance(int num_tokenizer_threads)
      : workers_(std::make_unique<WorkerPool>(num_tokenizer_threads)) {}

  // Intake: of the shape of GenerateIntake (engine/intake/generate_intake.h). Errors are those of
  // Engine::Generate; after one, `sink` is not called.
  template <typename Intake>
  absl::StatusOr<std::shared_ptr<RequestHandle>> Accept(typename Intake::Request&& request,
                                                        std::shared_ptr<typename Intake::Sink> sink,
                                                        Place place);

  // The threads that tokenize; until Close.
  WorkerPool& workers() { return *workers_; }

  // Refuses what comes from now on: who has no ticket yet is refused.
  void StartDraining() { draining_ = true; }
  // Refuses what comes from now on, and ends what is being tokenized; when it returns, what was
  // accepted has reached its replica or its answer.
  // REQUIRES: no Accept is under way, or comes.
  void Close();

 private:
  class Handle;

  absl::StatusOr<Acceptance> CountIn(ReplicaPool& pool, Ticket ticket, const Asker& asker,
                                     const Demand& demand);
  // As far as it is known before the request is tokenized.
  template <typename Intake>
  static Demand DemandOf(const Intake& intake, const typename Intake::Sink& sink) {
    if constexpr (requires { intake.steps_to_use(sink); }) return {intake.steps_to_use(sink)};
    return {};
  }

  // Text up to this size is tokenized on the caller's thread: waking a worker would take longer.
  static constexpr size_t kInlineTextBytes = 512;

  std::atomic<bool> draining_ = false;
  std::atomic<bool> closed_ = false;
  std::unique_ptr<WorkerPool> workers_;
};

class Entrance::Handle : public RequestHandle {
 public:
  void Cancel() override { cancellation_.Cancel(); }
  // Keeps the handle.
  static std::shared_ptr<Cancellation> CancellationOf(const std::shared_ptr<Handle>& handle) {
    return {handle, &handle->cancellation_};
  }

 private:
  Cancellation cancellation_;
};

template <typename Intake>
absl::StatusOr<std::shared_ptr<RequestHandle>> Entrance::Accept(
    typename Intake::Request&& request, std::shared_ptr<typename Intake::Sink> sink, Place place) {
  const Clock::time_point arrival = Clock::now();
  const Asker asker = {request.priority, request.client, request.deadline, arrival};
  const std::shared_ptr<ReplicaPool> pool = std::move(place.pool);
  auto handle = std::make_shared<Handle>();
  auto guard = std::make_shared<RerunSink<Intake>>(
      pool, std::move(sink), request,
      typename RerunSink<Intake>::Kept{Handle::CancellationOf(handle), arrival,
                                       ChargedTokens(request.charge)});
  absl::StatusOr<Intake> intake = Intake::Check(std::move(request), pool->facts());
  if (!intake.ok()) return intake.status();
  const bool is_long = intake->text_bytes() > kInlineTextBytes;
  if (is_long) BEAMLINE_RETURN_IF_ERROR(guard->tokens().Check());
  BEAMLINE_ASSIGN_OR_RETURN(Acceptance acceptance, CountIn(*pool, std::move(place.ticket), asker,
                                                           DemandOf(*intake, *guard)));
  acceptance.cancellation = Handle::CancellationOf(handle);
  ChargedTokens& tokens = guard->tokens();
  auto job = intake->Start(std::move(acceptance), std::move(guard));
  if (!is_long) {
    // Refused where it is asked: no other thread is woken for what is to cost as little as it can.
    const absl::Status status = Prepare(*pool, *intake, *job, QueueLimits::kAll, tokens);
    if (!status.ok()) {
      tokens.Settle(status);
      return status;
    }
    pool->Submit(std::move(job));
  } else {
    using Ends = typename Tokenizing<Intake>::Ends;
    std::make_shared<Tokenizing<Intake>>(
        Ends{pool, tokens, *workers_, closed_, absl::CancelledError("the server is shutting down")},
        *std::move(intake), std::move(job))
        ->Start();
  }
  return handle;
}

}  // namespace beamline
