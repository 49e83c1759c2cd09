#include "loadtest/traffic/generator.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "loadtest/traffic/status_name.h"

namespace beamline::loadtest {
namespace {

using std::chrono::nanoseconds;

// Longest reaction time to a stop.
constexpr std::chrono::milliseconds kStopInterval{50};

}  // namespace

Generator::Generator(const TrafficOptions& options, const Parts& parts)
    : options_(options), parts_(parts) {
  if (options.arrivals) arrivals_.emplace(*options.arrivals);
}

void Generator::Run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; Linux may otherwise wake this thread 50 µs late
  cancel_timer_ = std::make_unique<CancelTimer>(outstanding_);
  clock_ = RunClock();
  for (uint64_t index = 0; options_.num_requests == 0 || index < options_.num_requests; ++index) {
    Request request = parts_.factory.Make(index);  // made ahead, so that it does not delay sending
    nanoseconds intended = NextIntended();
    if (intended >= options_.duration || !WaitToSend(intended)) break;
    if (!arrivals_) intended = clock_.Now();  // when its slot became free
    if (intended >= options_.duration) break;
    Send(std::move(request), intended);
  }
  Drain();
}

nanoseconds Generator::NextIntended() { return arrivals_ ? arrivals_->Next() : clock_.Now(); }

bool Generator::WaitToSend(nanoseconds intended) {
  if (batch_places_ > 0 && intended <= batch_begin_) {  // it arrived before the batch was sent
    --batch_places_;
    return !parts_.stop;
  }
  while (!parts_.stop) {
    const nanoseconds left = intended - clock_.Now();
    if (left <= nanoseconds{0}) break;
    std::this_thread::sleep_for(std::min<nanoseconds>(left, kStopInterval));
  }
  const bool batched = options_.batching.size > 0;
  const size_t most_in_flight = batched ? 0 : options_.max_in_flight - 1;
  while (!parts_.stop) {
    const auto until = RunClock::Steady::now() + kStopInterval;
    if (outstanding_.WaitForAtMost(most_in_flight, until)) {
      batch_begin_ = clock_.Now();
      batch_places_ = batched ? options_.batching.size - 1 : 0;
      return true;
    }
    if (clock_.Now() > options_.duration + options_.drain) return false;
  }
  return false;
}

void Generator::Send(Request request, nanoseconds intended) {
  const uint64_t index = request.index;
  const auto cancel_after = request.cancel_after;
  const Connections::Lane lane = parts_.connections.Next();
  Call* const call = outstanding_.Add(MakeCall(std::move(request), clock_, *this));
  ++num_sent_;
  if (options_.num_clients > 0) {
    call->SetClient("client-" + std::to_string(index % options_.num_clients));
  }
  call->Start(intended, options_.timeout, *lane.stub, *lane.queue);
  if (cancel_after) {
    cancel_timer_->CancelAt(RunClock::Steady::now() + *cancel_after, index);
  }
}

void Generator::Drain() {
  const nanoseconds until = clock_.Now() + options_.drain;
  bool empty = false;
  while (!empty && !parts_.stop && clock_.Now() < until) {
    empty = outstanding_.WaitForAtMost(0, RunClock::Steady::now() + kStopInterval);
  }
  if (!empty) {
    cutting_ = true;
    outstanding_.CancelAll();
    // Cancelled calls end at once.
    while (!outstanding_.WaitForAtMost(0, RunClock::Steady::now() + kStopInterval)) {
    }
  }
  cancel_timer_.reset();
}

Ending Generator::Classify(const Call& call) const {
  const Request& request = call.request();
  switch (call.status().error_code()) {
    case grpc::StatusCode::OK:
      if (!call.answer().HasFinishReason(v1::FINISH_REASON_DEADLINE)) return Ending::kOk;
      return request.deadline ? Ending::kDeadline : Ending::kError;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:  // a server may predict that the deadline cannot be
                                                // met
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return request.deadline ? Ending::kDeadline : Ending::kError;
    case grpc::StatusCode::CANCELLED:
      if (!call.was_cancelled()) return Ending::kError;
      return cutting_ && !request.cancel_after ? Ending::kStopped : Ending::kCancelled;
    default:
      return Ending::kError;
  }
}

void Generator::OnDone(Call* finished) {
  const Ending ending = Classify(*finished);
  RequestRecord& record = finished->record();
  record.ending = ending;
  record.code = StatusName(finished->status().error_code());
  record.message = finished->status().error_message();
  if (ending == Ending::kError && finished->status().ok()) {
    record.message = "cut at the deadline of --timeout";
  }
  if (parts_.verifier != nullptr && ending != Ending::kError) {
    parts_.verifier->Check(*finished, /*partial=*/!finished->status().ok());
  }
  if (parts_.trace_recorder != nullptr) parts_.trace_recorder->Add(record);
  parts_.recorder.Record(record);
  outstanding_.Remove(finished);
}

}  // namespace beamline::loadtest
