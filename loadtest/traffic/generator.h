// Sends a workload's requests by a schedule and tells the recorder how they ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "loadtest/report/recorder.h"
#include "loadtest/traffic/batching.h"
#include "loadtest/traffic/call.h"
#include "loadtest/traffic/cancel_timer.h"
#include "loadtest/traffic/connections.h"
#include "loadtest/traffic/outstanding.h"
#include "loadtest/traffic/trace_recorder.h"
#include "loadtest/traffic/verifier.h"
#include "loadtest/workload/arrivals.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {

struct TrafficOptions {
  // Open loop: requests are sent when the schedule says so, whether or not the server keeps up.
  // Absent: closed loop, the next request is sent when one of `max_in_flight` has ended.
  std::optional<ArrivalOptions> arrivals;
  std::chrono::nanoseconds duration{0};  // warm-up included
  uint64_t num_requests = 0;             // at most, warm-up included; 0: no limit
  // An open loop waits at this many, too; the wait counts as latency, which is measured from the
  // intended time.
  size_t max_in_flight = 1;
  Batching batching;                     // of an open loop
  uint64_t num_clients = 0;              // whose requests take turns; 0: none is named
  std::chrono::milliseconds timeout{0};  // of one request
  std::chrono::nanoseconds drain{0};     // for the last answers; afterwards they are cancelled
};

class Generator : private CallObserver {
 public:
  struct Parts {
    Connections& connections;
    const RequestFactory& factory;
    Recorder& recorder;
    Verifier* verifier = nullptr;             // may be absent
    const std::atomic<bool>& stop;            // ends the run early when it turns true
    TraceRecorder* trace_recorder = nullptr;  // may be absent
  };

  Generator(const TrafficOptions& options, const Parts& parts);

  // Returns when the last request has ended. REQUIRES: called once.
  void Run();

  // Any thread.
  uint64_t num_sent() const { return num_sent_; }

 private:
  // Whether the next request may go; waits for its time and its slot, or its batch.
  bool WaitToSend(std::chrono::nanoseconds intended);
  std::chrono::nanoseconds NextIntended();
  void Send(Request request, std::chrono::nanoseconds intended);
  void Drain();
  void OnDone(Call* call) override;
  Ending Classify(const Call& call) const;

  const TrafficOptions options_;
  const Parts parts_;
  std::optional<Arrivals> arrivals_;
  Outstanding outstanding_;
  std::unique_ptr<CancelTimer> cancel_timer_;
  // Of the batch being sent: when it began, and how many more requests it takes.
  std::chrono::nanoseconds batch_begin_{0};
  size_t batch_places_ = 0;
  std::atomic<bool> cutting_ = false;  // the run is over, what is left gets cancelled
  std::atomic<uint64_t> num_sent_ = 0;
  RunClock clock_;
};

}  // namespace beamline::loadtest
