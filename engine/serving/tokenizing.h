// A request that is tokenized by threads of a pool. A request with several inputs is tokenized by
// as many threads as it has chunks of text; after each chunk a thread turns to what other requests
// have posted meanwhile, so that long requests do not hold up short ones. No thread waits for
// another: the one that finishes the last chunk hands the job on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/stop_check.h"
#include "base/worker_pool.h"
#include "engine/intake/tokenize_job.h"
#include "engine/serving/replica_pool.h"
#include "engine/serving/rerun_sink.h"
#include "engine/serving/text_chunks.h"

namespace beamline {

// Lives until the last of its threads lets go of it.
template <typename Intake>
class Tokenizing : public std::enable_shared_from_this<Tokenizing<Intake>> {
 public:
  struct Ends {
    std::shared_ptr<ReplicaPool> pool;  // where the job goes
    ChargedTokens& tokens;              // the sink's, and end with the job
    WorkerPool& workers;
    const std::atomic<bool>& closed;  // once set, requests end with `closed_error`
    absl::Status closed_error;
  };

  Tokenizing(Ends ends, Intake intake, std::unique_ptr<typename Intake::Job> job)
      : ends_(std::move(ends)), intake_(std::move(intake)), job_(std::move(job)) {
    if constexpr (HasInputs<Intake>) {
      chunks_.emplace(intake_.num_inputs(), [this](size_t i) { return intake_.input_bytes(i); });
    }
  }

  // Returns at once. The job reaches its replica, or its answer.
  void Start() {
    ends_.workers.Post([self = this->shared_from_this()] { self->Begin(); });
  }

 private:
  void Begin() {
    const StopWhen closed([this] { return Closed(); });
    if constexpr (HasInputs<Intake>) {
      if (chunks_->size() > 1) return BeginChunks();
    }
    beamline::Begin(*ends_.pool, intake_, std::move(job_), QueueLimits::kAll, ends_.tokens);
  }

  void BeginChunks() {
    const absl::Status status = [this] {
      const StopWhen stop = StopWithJob(*ends_.pool, *job_);
      BEAMLINE_RETURN_IF_ERROR(StopCheck::Now());
      return intake_.StartInputs(*job_);
    }();
    if (!status.ok()) return job_->Answer(status);
    const size_t most = std::min(chunks_->size(), static_cast<size_t>(ends_.workers.num_threads()));
    for (size_t i = 1; i < most; ++i) PostChunks();
    TokenizeChunks();
  }

  void PostChunks() {
    ends_.workers.Post([self = this->shared_from_this()] {
      const StopWhen closed([&self] { return self->Closed(); });
      self->TokenizeChunks();
    });
  }

  // Until none is left, or other requests wait for a thread.
  void TokenizeChunks() {
    while (const auto chunk = chunks_->Take()) {
      if (TokenizeChunk(*chunk)) return HandOn();
      if (ends_.workers.HasWaiting()) return PostChunks();
    }
  }

  // True: that was the last one.
  bool TokenizeChunk(const TextChunks::Chunk& chunk) {
    const StopWhen stop = StopWithJob(*ends_.pool, *job_);
    absl::Status status = StopCheck::Now();
    size_t input = chunk.begin;
    while (status.ok() && input < chunk.end) {
      status = intake_.TokenizeInput(input, *job_);
      if (status.ok()) ++input;
    }
    return chunks_->Finish(input, status);
  }

  void HandOn() {
    absl::Status status = chunks_->status();
    if (status.ok()) {
      status = [this] {
        BEAMLINE_RETURN_IF_ERROR(intake_.FinishInputs(*job_));
        return Enqueue(*ends_.pool, *job_, QueueLimits::kAll, ends_.tokens);
      }();
    }
    if (!status.ok()) return job_->Answer(status);
    ends_.pool->Submit(std::move(job_));
  }

  absl::Status Closed() const { return ends_.closed ? ends_.closed_error : absl::OkStatus(); }

  const Ends ends_;
  Intake intake_;
  std::unique_ptr<typename Intake::Job> job_;
  std::optional<TextChunks> chunks_;  // of requests with inputs
};

}  // namespace beamline
