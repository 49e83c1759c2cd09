// SIGTERM and SIGINT: the first asks for a clean end, the second ends the process at once.
#pragma once

#include <condition_variable>
#include <mutex>

namespace beamline {

// One per process, made before any other thread, so that all threads inherit the blocked signals.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Returns with the first signal.
  void Wait();

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool has_arrived_ = false;
};

}  // namespace beamline
