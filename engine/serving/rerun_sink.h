// Stands between a request's job and its sink: when the job's replica ends under it and nothing of
// the answer has left, the request is begun again at another replica of the pool, once, with its
// arrival, deadline and cancellation.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/stop_check.h"
#include "engine/intake/tokenize_job.h"
#include "engine/scheduling/job.h"
#include "engine/serving/attempt.h"
#include "engine/serving/charged_tokens.h"
#include "engine/serving/replica_pool.h"

namespace beamline {

// Holds on the calling thread: ends long work for a job once its answer is not wanted.
template <typename JobType>
auto StopWithJob(const ReplicaPool& pool, const JobType& job) {
  return StopWhen([&job, &pool] {
    if (job.cancellation->is_cancelled()) return absl::CancelledError("cancelled by the client");
    if (job.deadline.has_value() && *job.deadline <= Clock::now()) return OverdueError();
    return pool.ended();
  });
}

// Charges `tokens` for a job that is tokenized, and counts it among those that wait. An error is
// its answer. `limits`: those that it must keep. `tokens`: the sink's, and end with it.
template <typename JobType>
absl::Status Enqueue(ReplicaPool& pool, JobType& job, QueueLimits limits, ChargedTokens& tokens) {
  BEAMLINE_RETURN_IF_ERROR(tokens.Take(job.cost));
  return pool.Queue(job, limits);
}

// Tokenizes on the calling thread, then as Enqueue.
template <typename Intake>
absl::Status Prepare(ReplicaPool& pool, Intake& intake, typename Intake::Job& job,
                     QueueLimits limits, ChargedTokens& tokens) {
  const StopWhen stop = StopWithJob(pool, job);
  if (job.cancellation->is_cancelled()) return absl::CancelledError("cancelled by the client");
  BEAMLINE_RETURN_IF_ERROR(TokenizeJob(intake, job));
  return Enqueue(pool, job, limits, tokens);
}

// Prepares the request and hands it to a replica, or answers it.
template <typename Intake>
void Begin(ReplicaPool& pool, Intake& intake, std::unique_ptr<typename Intake::Job> job,
           QueueLimits limits, ChargedTokens& tokens) {
  const absl::Status status = Prepare(pool, intake, *job, limits, tokens);
  if (!status.ok()) return job->Answer(status);
  pool.Submit(std::move(job));
}

template <typename Sink>
struct Guarded {
  const std::shared_ptr<Sink> client;
  Attempt attempt;
};

// Forwards what only some sinks have.
template <typename Sink>
class ForwardingSink : public Sink {
 protected:
  explicit ForwardingSink(Guarded<Sink> of) : of_(std::move(of)) {}
  Guarded<Sink> of_;
};

template <>
class ForwardingSink<GenerateSink> : public GenerateSink {
 public:
  bool wants_deltas() const override { return of_.client->wants_deltas(); }
  void OnDelta(GenerateDelta delta) override {
    of_.attempt.HandOut();
    of_.client->OnDelta(std::move(delta));
  }

 protected:
  explicit ForwardingSink(Guarded<GenerateSink> of) : of_(std::move(of)) {}
  Guarded<GenerateSink> of_;
};

template <typename Intake>
class RerunSink final : public ForwardingSink<typename Intake::Sink>,
                        public std::enable_shared_from_this<RerunSink<Intake>> {
 public:
  using Request = typename Intake::Request;

  // What a request keeps wherever it runs.
  struct Kept {
    std::shared_ptr<Cancellation> cancellation;
    Clock::time_point arrival;
    ChargedTokens tokens;
  };

  // Keeps the request where there is another replica to begin it again.
  RerunSink(std::shared_ptr<ReplicaPool> pool, std::shared_ptr<typename Intake::Sink> client,
            const Request& request, Kept kept)
      : ForwardingSink<typename Intake::Sink>({std::move(client), Attempt(request.deadline)}),
        pool_(std::move(pool)),
        kept_(std::move(kept)) {
    if (pool_->size() > 1) request_ = std::make_unique<Request>(request);
  }

  ChargedTokens& tokens() { return kept_.tokens; }

  void OnFinish(absl::StatusOr<typename Intake::Result> result) override {
    if (result.ok()) {
      kept_.tokens.Settle(*result);
      return this->of_.client->OnFinish(std::move(result));
    }
    absl::Status error = result.status();
    const Attempt::Next next =
        this->of_.attempt.OnError(error, kept_.cancellation->is_cancelled(), Clock::now());
    if (next == Attempt::Next::kRunAgain && request_ != nullptr) return RunAgain(error);
    kept_.tokens.Settle(error);
    // Who is told to come again should find somebody.
    const absl::Status pool = pool_->status();
    if (!pool.ok() && !pool.GetPayload(kReplicaEndedPayload).has_value()) {
      error.ErasePayload(kReplicaEndedPayload);
    }
    this->of_.client->OnFinish(error);
  }

 private:
  // After it begins, the sink belongs to the other replica's thread.
  void RunAgain(const absl::Status& error) {
    absl::StatusOr<Intake> intake = Intake::Check(std::move(*request_), pool_->facts());
    if (!intake.ok()) {  // it passed once
      kept_.tokens.Settle(error);
      return this->of_.client->OnFinish(error);
    }
    Acceptance acceptance;
    acceptance.ticket = Ticket(pool_->tickets());
    acceptance.arrival = kept_.arrival;
    acceptance.cancellation = kept_.cancellation;
    // It was counted in once, so that no limit refuses it now.
    acceptance.waiting =
        *WaitingCount::Enter(pool_->waiting(), std::numeric_limits<int64_t>::max());
    auto job = intake->Start(std::move(acceptance), this->shared_from_this());
    pool_->CountRerun();
    Begin(*pool_, *intake, std::move(job), QueueLimits::kNone, kept_.tokens);
  }

  const std::shared_ptr<ReplicaPool> pool_;
  Kept kept_;
  std::unique_ptr<Request> request_;  // null: it is not begun again
};

}  // namespace beamline
