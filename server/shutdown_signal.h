// What ends the process: SIGTERM and SIGINT, of which the first asks for a clean end and the second
// ends it at once, or the program itself.
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

  // Asks for a clean end; a signal that comes later is the first.
  void Request();
  // Returns with the first signal or request.
  void Wait();

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool has_arrived_ = false;
};

}  // namespace beamline
