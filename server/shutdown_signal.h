// What ends the process: SIGTERM, SIGINT and SIGHUP, or the program itself; and SIGUSR1, which asks
// for something else. While the server loads,
// a signal ends the process at once, with status 0. Once it serves, the first asks for a clean end
// and the second ends it at once. SIGHUP stays ignored where whoever started the server (nohup)
// ignores it.
#pragma once

#include <condition_variable>
#include <functional>
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
  // What SIGUSR1 is for from now on, by the thread that waits for signals; nothing: it is ignored.
  // The earlier one does not run any more when it returns.
  void OnUserSignal(std::function<void()> handle);

 private:
  void Watch();
  // The next signal that ends something.
  int Next();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool serving_ = false;      // guarded by mutex_
  bool has_arrived_ = false;  // guarded by mutex_
  std::mutex user_mutex_;
  std::function<void()> on_user_signal_;  // guarded by user_mutex_
};

}  // namespace beamline
