// Whether requests come to a replica that sleeps in bursts: many within the time of a step, as of a
// client that sends a batch and waits for all answers. Pure.
#pragma once

#include <chrono>
#include <cstddef>

#include "engine/api/request.h"

namespace beamline {

class BurstWatch {
 public:
  // So many that come so soon after the one that ended a sleep are a burst with it.
  static constexpr size_t kFewest = 16;
  static constexpr std::chrono::microseconds kTime{500};

  // So many have ended a sleep.
  void Wake(size_t num_received, Clock::time_point now) {
    expects_more_ = num_received_ >= kFewest;
    num_received_ = num_received;
    woken_at_ = now;
  }
  // So many have come since.
  void Add(size_t num_received, Clock::time_point now) {
    if (now - woken_at_ < kTime) num_received_ += num_received;
  }
  // Whether more will come with those that ended the last sleep, as with those before.
  bool expects_more() const { return expects_more_; }

 private:
  size_t num_received_ = 0;  // since the last sleep, within kTime
  Clock::time_point woken_at_;
  bool expects_more_ = false;
};

}  // namespace beamline
