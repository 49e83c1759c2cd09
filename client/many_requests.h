// The bookkeeping of GenerateMany and EncodeMany, without the stream: what to write next, what an
// answer means, what to retry and when. Internal to the client.
//
// Each request gets an id of its own: its index. A request that fails with a temporary error is
// written again after its wait. When the stream breaks, all unanswered requests are. Two threads
// may use this at once: one reads answers and one writes requests.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/grpc_status.h"
#include "client/retry.h"

namespace beamline {

// Zero: no limit.
struct ManyLimits {
  std::chrono::milliseconds whole{0};  // from the start to the last answer
  std::chrono::milliseconds stall{0};  // without an answer while a request is unanswered
};

// Limits how far the source runs ahead of the first unanswered request.
inline constexpr size_t kManyWindow = 1024;

template <typename Request, typename Response>
class ManyRequests {
 public:
  using Clock = std::chrono::system_clock;  // gRPC's clock of deadlines

  ManyRequests(const RetryPolicy& policy, const Client::Source<Request>& source,
               const Client::OnAnswer<Response>& on_answer, const ManyLimits& limits)
      : policy_(policy), source_(source), on_answer_(on_answer), stall_(limits.stall) {
    if (limits.whole.count() > 0 && limits.whole <= kLongestTimeout) {
      deadline_ = Clock::now() + limits.whole;
    }
  }

  std::optional<Clock::time_point> deadline() const { return deadline_; }

  // --- Called by the writing thread.

  enum class Turn { kWrite, kAsk, kEndWrites, kLeave };

  // Waits for the next action on the stream. kWrite: `request` was set.
  Turn NextTurn(Request& request) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (has_ended_) return Turn::kLeave;
      if (!waiting_.empty() && waiting_.begin()->first <= Clock::now()) {
        return Take(waiting_.extract(waiting_.begin()).value().second, request);
      }
      if (!unwritten_.empty()) return Take(*unwritten_.begin(), request);
      if (!source_ended_ && !IsWindowFull()) return Turn::kAsk;
      if (source_ended_ && waiting_.empty()) return Turn::kEndWrites;
      if (waiting_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, waiting_.begin()->first);
      }
    }
  }

  void AskSource() {
    absl::StatusOr<Request> request = absl::UnknownError("not set");
    const Client::Next next = source_(request);
    if (next == Client::Next::kNotYet) return;
    if (next == Client::Next::kEnd) {
      const std::lock_guard lock(mutex_);
      source_ended_ = true;
      return;
    }
    const size_t place = num_places_++;
    if (!request.ok()) return Answer(place, request.status());
    Owed owed;
    owed.id = request->request_id();
    owed.request = *std::move(request);
    owed.request.set_request_id(std::to_string(place));
    const size_t size = owed.request.ByteSizeLong();
    if (size > max_request_bytes_) return Answer(place, TooLarge(size));
    const std::lock_guard lock(mutex_);
    if (owed_.empty()) progress_ = Clock::now();
    owed_.emplace(place, std::move(owed));
    unwritten_.insert(place);
  }

  // --- Called by the reading thread.

  // A new stream starts; the writing thread does not run yet.
  void StreamBegins() {
    const std::lock_guard lock(mutex_);
    has_ended_ = false;
    unwritten_.clear();
    for (const auto& [place, owed] : owed_) unwritten_.insert(place);
    for (const auto& [due, place] : waiting_) unwritten_.erase(place);
  }
  // The stream has no more answers; the writing thread returns.
  void StreamEnds() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    changed_.notify_all();
  }

  template <typename Envelope>
  void TakeAnswer(Envelope envelope) {
    const size_t place = PlaceOf(envelope.request_id());
    absl::StatusOr<Response> answer = absl::UnknownError("not set");
    {
      const std::lock_guard lock(mutex_);
      num_broken_ = 0;
      const auto found = owed_.find(place);
      if (found == owed_.end()) return;
      if (!envelope.has_response()) {
        answer = ToStatus(envelope.error());
        const auto delay = DelayAfter(answer.status(), ++found->second.num_failures);
        if (delay.has_value()) {
          waiting_.emplace(Clock::now() + *delay, place);
          changed_.notify_all();
          return;
        }
      } else {
        answer = std::move(*envelope.mutable_response());
        answer->set_request_id(found->second.id);
      }
      owed_.erase(found);
      unwritten_.erase(place);
      Forget(waiting_, place);
      progress_ = Clock::now();
    }
    changed_.notify_all();  // the window may have room for one more
    Answer(place, answer);
  }

  // Waits for a moment. Returns whether no answer came within the stall limit.
  bool WaitIsStalled() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(50));
    return !has_ended_ && !owed_.empty() && Clock::now() - progress_ >= stall_;
  }
  bool HasEnded() {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }

  // --- Called between two streams, when no other thread uses this.

  bool IsAllDone() const { return source_ended_ && owed_.empty(); }

  // The wait before a new stream is opened, given how the last one ended; nullopt: none is opened.
  // OK counts as an error too, unless all remaining requests wait for their retries.
  std::optional<std::chrono::milliseconds> DelayAfterStream(const absl::Status& status) {
    if (LearnLimit(status)) return std::chrono::milliseconds(0);
    if (status.ok() && source_ended_ && waiting_.size() == owed_.size()) {
      return std::chrono::ceil<std::chrono::milliseconds>(
          std::max(waiting_.begin()->first - Clock::now(), Clock::duration(0)));
    }
    return DelayAfter(status.ok() ? absl::UnavailableError("") : status, ++num_broken_);
  }

  // Answers all remaining requests with this status.
  void AnswerRest(const absl::Status& status) {
    for (const auto& [place, owed] : std::exchange(owed_, {})) Answer(place, status);
  }

  bool source_ended() const { return source_ended_; }

 private:
  struct Owed {
    Request request;  // with its index as its id
    std::string id;   // the caller's id
    int num_failures = 0;
  };
  using Waiting = std::set<std::pair<Clock::time_point, size_t>>;

  static void Forget(Waiting& waiting, size_t place) {
    std::erase_if(waiting, [&](const auto& one) { return one.second == place; });
  }
  bool IsWindowFull() const {
    return !owed_.empty() && num_places_ - owed_.begin()->first >= kManyWindow;
  }
  Turn Take(size_t place, Request& request) {
    unwritten_.erase(place);
    request = owed_.at(place).request;
    return Turn::kWrite;
  }

  // Nullopt also if a time limit would pass during the wait.
  std::optional<std::chrono::milliseconds> DelayAfter(const absl::Status& error, int num_failures) {
    const auto delay = RetryDelay(policy_, error, num_failures);
    const Clock::time_point end = Clock::now() + delay.value_or(std::chrono::milliseconds(0));
    if (deadline_.has_value() && end >= *deadline_) return std::nullopt;
    const Clock::time_point begin = owed_.empty() ? Clock::now() : progress_;
    if (stall_.count() > 0 && delay.has_value() && end - begin >= stall_) return std::nullopt;
    return delay;
  }

  // Returns whether the stream ended because a request was too large, which makes gRPC end it.
  // Answers the requests that are too large.
  bool LearnLimit(const absl::Status& end) {
    if (!absl::IsResourceExhausted(end)) return false;
    constexpr char kMark[] = "larger than max (";
    const std::string message(end.message());
    const size_t mark = message.find(kMark);
    size_t size = 0, limit = 0;
    if (mark == std::string::npos ||
        std::sscanf(message.c_str() + mark, "larger than max (%zu vs. %zu)", &size, &limit) != 2) {
      return false;
    }
    const bool is_ours = std::any_of(owed_.begin(), owed_.end(), [&](const auto& owed) {
      return size > limit && owed.second.request.ByteSizeLong() == size;
    });
    if (!is_ours) return false;
    max_request_bytes_ = limit;
    for (auto owed = owed_.begin(); owed != owed_.end();) {
      const size_t bytes = owed->second.request.ByteSizeLong();
      if (bytes <= limit) {
        ++owed;
        continue;
      }
      Forget(waiting_, owed->first);
      Answer(owed->first, TooLarge(bytes));
      owed = owed_.erase(owed);
    }
    progress_ = Clock::now();
    return true;
  }

  absl::Status TooLarge(size_t size) const {
    return absl::ResourceExhaustedError("the request has " + std::to_string(size) +
                                        " bytes; the server accepts at most " +
                                        std::to_string(max_request_bytes_));
  }

  void Answer(size_t place, const absl::StatusOr<Response>& answer) {
    const std::lock_guard lock(answer_mutex_);
    on_answer_(place, answer);
  }

  // The index in an id of ours.
  static size_t PlaceOf(const std::string& id) {
    size_t place = std::numeric_limits<size_t>::max();
    std::from_chars(id.data(), id.data() + id.size(), place);
    return place;
  }

  const RetryPolicy policy_;
  const Client::Source<Request>& source_;
  const Client::OnAnswer<Response>& on_answer_;
  const std::chrono::milliseconds stall_;
  std::optional<Clock::time_point> deadline_;

  // Used by the writing thread while a stream runs.
  size_t num_places_ = 0;
  size_t max_request_bytes_ =
      std::numeric_limits<size_t>::max();  // known once a stream was ended for it

  std::mutex answer_mutex_;  // answers go out one at a time
  std::mutex mutex_;         // guards what follows while a stream runs
  std::condition_variable changed_;
  std::map<size_t, Owed> owed_;  // by index: unanswered requests
  std::set<size_t>
      unwritten_;    // of these, not yet written to this stream; waiting_ ones are left out
  Waiting waiting_;  // of these, when to retry
  bool source_ended_ = false;
  bool has_ended_ = false;  // this stream has no more answers
  int num_broken_ = 0;      // broken streams since the last answer
  Clock::time_point progress_ =
      Clock::now();  // time of the last answer, or of the first unanswered request
};

}  // namespace beamline
