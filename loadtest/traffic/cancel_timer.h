// Cancels calls at given times, on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "loadtest/traffic/outstanding.h"

namespace beamline::loadtest {

class CancelTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit CancelTimer(Outstanding& outstanding);
  // Drops all pending cancellations.
  ~CancelTimer();

  // Cancels the request with this index at `time`, if it is then in flight.
  void CancelAt(TimePoint time, uint64_t index);

 private:
  using Entry = std::pair<TimePoint, uint64_t>;

  void Run();

  Outstanding& outstanding_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;  // earliest on top
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace beamline::loadtest
