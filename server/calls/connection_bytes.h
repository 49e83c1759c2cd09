// What a connection keeps of messages that are not whole: what has come by it, less the messages
// that were whole, less what is no message (HTTP/2's headers and the like).
//
// gRPC tells of whole messages alone, the system how much has come (received_bytes.h). What is no
// message is estimated from below: messages that are not whole can keep no more than has come since
// the first of them was begun. So the estimate of what they keep is never too low, and is right
// again whenever none is left, or the oldest of them is young.
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
  // A message of this size is whole.
  void Deliver(int64_t bytes);
  // So much has been received, ever. `oldest`: when the read began that has waited the longest;
  // none: no message is being read. Returns whether nothing has come since the sample before.
  bool Sample(int64_t received, Clock::time_point now, std::optional<Clock::time_point> oldest);
  // What the whole messages have taken, estimated: another value whenever one is delivered.
  int64_t delivered() const { return delivered_; }
  // Messages that are not whole keep no more than this, as far as the last sample shows.
  int64_t kept() const;
  // At most as much has come since `since`; INT64_MAX: that is not known any more.
  int64_t ReceivedSince(Clock::time_point since) const;
  // All messages have been given up whose reading began before `since`.
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
  int64_t base_ = 0;          // of net(): what is no message that is being read
  std::deque<Past> samples_;  // of some seconds; the last one may be replaced by a later one
};

}  // namespace beamline
