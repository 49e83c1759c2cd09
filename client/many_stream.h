// The requests of GenerateMany or EncodeMany over one stream, and over another one when a request
// that is too large for the server has ended it: that request alone fails. Internal to client.cc.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/grpc_status.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// Zero: no limit.
struct ManyLimits {
  std::chrono::milliseconds whole{0};  // from the start to the last answer
  std::chrono::milliseconds stall{0};  // without an answer while one is owed
};

template <typename Request, typename Response, typename Envelope>
class ManyStream {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Envelope>;
  using Open = std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>;

  ManyStream(Open open, const Client::Source<Request>& source,
             const Client::OnAnswer<Response>& on_answer, const ManyLimits& limits)
      : open_(std::move(open)), source_(source), on_answer_(on_answer), limits_(limits) {
    if (limits.whole.count() > 0 && limits.whole <= kLongestTimeout) {
      deadline_ = Clock::now() + limits.whole;
    }
  }

  // Returns when every request that the source gave is answered: OK when the source came to its
  // end.
  absl::Status Run() {
    while (true) {
      const grpc::Status end = RunOneCall();
      if (LearnLimit(end)) {
        if (source_ended_ && owed_.empty()) return absl::OkStatus();
        continue;
      }
      absl::Status status = ToStatus(end);
      if (timed_out_) {
        status = absl::DeadlineExceededError("no answer came within the time limit");
      } else if (status.ok() && !source_ended_) {
        status = absl::UnavailableError("the server closed the stream");
      } else if (status.ok() && !owed_.empty()) {
        status = absl::DataLossError("the stream ended without this answer");
      }
      for (const auto& [place, request] : std::exchange(owed_, {})) Answer(place, status);
      return status;
    }
  }

 private:
  using Clock = std::chrono::system_clock;

  // From the opening of a stream to its end, by which time nobody else is here.
  grpc::Status RunOneCall() {
    grpc::ClientContext context;
    if (deadline_ != Clock::time_point()) context.set_deadline(deadline_);
    ended_ = false;
    progress_ = Clock::now();
    const std::unique_ptr<Stream> stream = open_(&context);
    std::thread writer([&] { WriteAll(*stream); });
    std::thread watch([&] { Watch(context); });
    for (Envelope envelope; stream->Read(&envelope);) Take(std::move(envelope));
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    writer.join();
    watch.join();
    return stream->Finish();
  }

  // Writes while the thread that started this one reads, because a server whose answers are not
  // read takes no more requests.
  void WriteAll(Stream& stream) {
    for (const size_t place : OwedPlaces()) {
      if (!Write(stream, place)) return;
    }
    while (!source_ended_) {
      if (HasEnded()) return;
      absl::StatusOr<Request> request = absl::UnknownError("not set");
      const Client::Next next = source_(request);
      if (next == Client::Next::kNotYet) continue;
      source_ended_ = next == Client::Next::kEnd;
      if (!source_ended_ && !Send(stream, std::move(request))) return;
    }
    stream.WritesDone();
  }

  // False when the stream takes no more.
  bool Send(Stream& stream, absl::StatusOr<Request> request) {
    const size_t place = num_places_++;
    if (!request.ok()) {
      Answer(place, request.status());
      return true;
    }
    const size_t size = WithId(*request, place).ByteSizeLong();
    if (size > max_request_bytes_) {
      Answer(place, TooLarge(size));
      return true;
    }
    {
      const std::lock_guard lock(mutex_);
      if (owed_.empty()) progress_ = Clock::now();
      owed_.emplace(place, *std::move(request));
    }
    return Write(stream, place);
  }

  bool Write(Stream& stream, size_t place) {
    Request request;
    {
      const std::lock_guard lock(mutex_);
      request = WithId(owed_.at(place), place);  // still owed: no answer comes before it is written
    }
    return stream.Write(request);
  }

  void Take(Envelope envelope) {
    const size_t place = PlaceOf(envelope.request_id());
    std::string id;
    {
      const std::lock_guard lock(mutex_);
      const auto found = owed_.find(place);
      if (found == owed_.end()) return;
      id = found->second.request_id();
      owed_.erase(found);
      progress_ = Clock::now();
    }
    if (envelope.has_response()) {
      envelope.mutable_response()->set_request_id(id);
      Answer(place, std::move(*envelope.mutable_response()));
    } else {
      Answer(place, ToStatus(envelope.error()));
    }
  }

  void Watch(grpc::ClientContext& context) {
    std::unique_lock lock(mutex_);
    while (!ended_ && limits_.stall.count() > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (owed_.empty() || Clock::now() - progress_ < limits_.stall || ended_) continue;
      timed_out_ = true;
      context.TryCancel();
      return;
    }
  }

  // Whether the stream has ended because a request was too large: gRPC ends it then. Answers the
  // requests that are too large.
  bool LearnLimit(const grpc::Status& end) {
    if (end.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return false;
    constexpr char kMark[] = "larger than max (";
    const size_t mark = end.error_message().find(kMark);
    size_t size = 0, limit = 0;
    if (mark == std::string::npos ||
        std::sscanf(end.error_message().c_str() + mark, "larger than max (%zu vs. %zu)", &size,
                    &limit) != 2) {
      return false;
    }
    const auto size_of = [](const auto& owed) {
      return WithId(owed.second, owed.first).ByteSizeLong();
    };
    const bool is_ours = std::any_of(owed_.begin(), owed_.end(), [&](const auto& owed) {
      return size > limit && size_of(owed) == size;
    });
    if (!is_ours) return false;
    max_request_bytes_ = limit;
    for (auto owed = owed_.begin(); owed != owed_.end();) {
      const size_t bytes = size_of(*owed);
      if (bytes <= limit) {
        ++owed;
        continue;
      }
      Answer(owed->first, TooLarge(bytes));
      owed = owed_.erase(owed);
    }
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

  static Request WithId(const Request& request, size_t place) {
    Request numbered = request;
    numbered.set_request_id(std::to_string(place));
    return numbered;
  }

  // The place that an id of ours names.
  static size_t PlaceOf(const std::string& id) {
    size_t place = std::numeric_limits<size_t>::max();
    std::from_chars(id.data(), id.data() + id.size(), place);
    return place;
  }

  std::vector<size_t> OwedPlaces() {
    const std::lock_guard lock(mutex_);
    std::vector<size_t> places;
    for (const auto& [place, request] : owed_) places.push_back(place);
    return places;
  }

  bool HasEnded() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  const Open open_;
  const Client::Source<Request>& source_;
  const Client::OnAnswer<Response>& on_answer_;
  const ManyLimits limits_;
  Clock::time_point deadline_;

  // Used by the writing thread while a stream runs, otherwise by Run.
  bool source_ended_ = false;
  size_t num_places_ = 0;
  size_t max_request_bytes_ = std::numeric_limits<size_t>::max();  // once a stream has told

  std::mutex answer_mutex_;  // answers go out one at a time
  std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;
  std::map<size_t, Request> owed_;  // by place: given by the source and not answered
  bool ended_ = false;              // no more answers come from this stream
  bool timed_out_ = false;
  Clock::time_point progress_;  // of the last answer, or when one came to be owed
};

}  // namespace beamline
