// Estimates the bytes of incomplete messages of a connection: bytes received, less complete
// messages, less bytes that belong to no message (HTTP/2 headers and the like).
//
// gRPC reports complete messages only. The system reports how much was received (received_bytes.h).
// The bytes of no message are estimated from below: incomplete messages keep at most what came
// since the first of them began. So the estimate of the kept bytes is never too low. It is exact
// again whenever no message is incomplete, and nearly so when the oldest of them is young.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "engine/api/request.h"

namespace beamline {

// Not thread safe.
class ConnectionBytes {
 public:
  // Counts a complete message of this size.
  void Deliver(int64_t bytes);
  // `received`: bytes received since the connection began. `oldest`: start of the oldest pending
  // read; none if no read is pending. Returns true if nothing came since the previous sample.
  bool Sample(int64_t received, Clock::time_point now, std::optional<Clock::time_point> oldest);
  // Estimated wire bytes of all complete messages. Changes with every Deliver.
  int64_t delivered() const { return delivered_; }
  // Upper bound of the bytes of incomplete messages, as of the last sample.
  int64_t kept() const;
  // Upper bound of the bytes received since `since`. INT64_MAX when that is no longer known.
  int64_t ReceivedSince(Clock::time_point since) const;
  // All messages whose read began before `since` have been given up.
  void GiveUpBefore(Clock::time_point since);
  std::optional<Clock::time_point> last_sample() const;

 private:
  struct Past {
    Clock::time_point time;
    int64_t received = 0;
  };

  int64_t net() const { return received_ - delivered_; }

  int64_t received_ = 0;
  int64_t delivered_ = 0;
  int64_t base_ = 0;          // the part of net() that belongs to no pending message
  std::deque<Past> samples_;  // of the last seconds; the newest may be replaced by the next
};

}  // namespace beamline
