// Sends the requests of GenerateMany or EncodeMany over one stream. Opens a new one when it breaks
// or when a too large request has ended it. Internal to the client.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/grpc_status.h"
#include "client/many_requests.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

template <typename Request, typename Response, typename Envelope>
class ManyStream {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Envelope>;
  using Open = std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>;

  ManyStream(Open open, const RetryPolicy& policy, const Client::Source<Request>& source,
             const Client::OnAnswer<Response>& on_answer, const ManyLimits& limits)
      : open_(std::move(open)),
        requests_(policy, source, on_answer, limits),
        has_stall_limit_(limits.stall.count() > 0) {}

  // Returns when every request of the source is answered; OK if the source reached its end.
  absl::Status Run() {
    while (true) {
      const absl::Status end = RunOneStream();
      if (requests_.IsAllDone()) return absl::OkStatus();
      const auto delay = is_stalled_ ? std::nullopt : requests_.DelayAfterStream(end);
      if (requests_.IsAllDone()) return absl::OkStatus();
      if (!delay.has_value()) {
        const absl::Status status = WhyItEnded(end);
        requests_.AnswerRest(status);
        return status;
      }
      std::this_thread::sleep_for(*delay);
    }
  }

 private:
  using Turn = typename ManyRequests<Request, Response>::Turn;

  absl::Status WhyItEnded(const absl::Status& end) const {
    if (is_stalled_) return absl::DeadlineExceededError("no answer came within the time limit");
    if (!end.ok()) return end;
    if (!requests_.source_ended()) return absl::UnavailableError("the server closed the stream");
    return absl::DataLossError("the stream ended without this answer");
  }

  // Runs one stream to its end and joins its other threads.
  absl::Status RunOneStream() {
    grpc::ClientContext context;
    if (requests_.deadline().has_value()) context.set_deadline(*requests_.deadline());
    requests_.StreamBegins();
    const std::unique_ptr<Stream> stream = open_(&context);
    std::thread writer([&] { WriteAll(*stream); });
    std::thread watch([&] { Watch(context); });
    for (Envelope envelope; stream->Read(&envelope);) requests_.TakeAnswer(std::move(envelope));
    requests_.StreamEnds();
    writer.join();
    watch.join();
    return ToStatus(stream->Finish());
  }

  // Writes on a thread of its own while Run's thread reads: a server whose answers are not read
  // stops reading requests.
  void WriteAll(Stream& stream) {
    for (Request request;;) {
      switch (requests_.NextTurn(request)) {
        case Turn::kWrite:
          if (!stream.Write(request)) return;
          break;
        case Turn::kAsk:
          requests_.AskSource();
          break;
        case Turn::kEndWrites:
          stream.WritesDone();
          return;
        case Turn::kLeave:
          return;
      }
    }
  }

  void Watch(grpc::ClientContext& context) {
    while (has_stall_limit_ && !requests_.HasEnded()) {
      if (!requests_.WaitIsStalled()) continue;
      is_stalled_ = true;
      context.TryCancel();
      return;
    }
  }

  const Open open_;
  ManyRequests<Request, Response> requests_;
  const bool has_stall_limit_;
  bool is_stalled_ = false;
};

}  // namespace beamline
