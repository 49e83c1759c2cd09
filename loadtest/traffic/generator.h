// Sends a workload's requests on a schedule and reports their results to the recorder.
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
  // Open loop: requests are sent at scheduled times, even if the server cannot keep up. Absent:
  // closed loop; the next request is sent when one of `max_in_flight` has ended.
  std::optional<ArrivalOptions> arrivals;
  std::chrono::nanoseconds duration{0};  // including warm-up
  uint64_t num_requests = 0;             // maximum, including warm-up; 0: no limit
  // Limits an open loop too. The wait counts as latency, which is measured from the intended time.
  size_t max_in_flight = 1;
  Batching batching;                     // open loop only
  uint64_t num_clients = 0;              // round-robin client ids of the requests; 0: none
  std::chrono::milliseconds timeout{0};  // per request
  std::chrono::nanoseconds drain{0};     // for the last answers; then they are cancelled
};

class Generator : private CallObserver {
 public:
  struct Parts {
    Connections& connections;
    const RequestFactory& factory;
    Recorder& recorder;
    Verifier* verifier = nullptr;             // may be absent
    const std::atomic<bool>& stop;            // true ends the run early
    TraceRecorder* trace_recorder = nullptr;  // may be absent
  };

  Generator(const TrafficOptions& options, const Parts& parts);

  // Returns when the last request has ended. REQUIRES: called once.
  void Run();

  // May be called on any thread.
  uint64_t num_sent() const { return num_sent_; }

 private:
  // Waits for the request's time and its slot or batch. Returns whether it may be sent.
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
  // The current batch: its start time, and how many more requests it takes.
  std::chrono::nanoseconds batch_begin_{0};
  size_t batch_places_ = 0;
  std::atomic<bool> cutting_ = false;  // the run is over, remaining calls are cancelled
  std::atomic<uint64_t> num_sent_ = 0;
  RunClock clock_;
};

}  // namespace beamline::loadtest
