// What ends the process: SIGTERM, SIGINT and SIGHUP, or the program itself. While the server loads,
// a signal ends the process at once, with status 0. Once it serves, the first asks for a clean end
// and the second ends it at once. SIGHUP stays ignored where whoever started the server (nohup)
// ignores it.
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

  // From now on a signal asks for a clean end.
  void StartServing();
  // Asks for a clean end; a signal that comes later is the first.
  void Request();
  // Returns with the first signal or request.
  void Wait();

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool serving_ = false;      // guarded by mutex_
  bool has_arrived_ = false;  // guarded by mutex_
};

}  // namespace beamline
