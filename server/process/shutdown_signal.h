// The signals that end the process: SIGTERM, SIGINT and SIGHUP, or a request by the program itself.
// SIGUSR1 calls a handler. While the server loads, a signal ends the process at once, with status
// 0. Once it serves, the first signal asks for a clean end, and the second ends it at once. SIGHUP
// stays ignored if the parent process (nohup) ignores it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace beamline {

// One per process. Create it before any other thread, so that all threads inherit the blocked
// signals.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // From now on the first signal asks for a clean end.
  void StartServing();
  // Asks for a clean end. A later signal still counts as the first.
  void Request();
  // Blocks until the first signal or request.
  void Wait();
  // Sets the handler for SIGUSR1, called on the thread that waits for signals. Empty: SIGUSR1 is
  // ignored. The previous handler does not run any more when this returns.
  void OnUserSignal(std::function<void()> handle);

 private:
  void Watch();
  // Waits for the next signal that ends the process, and handles SIGUSR1 meanwhile.
  int Next();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool serving_ = false;      // guarded by mutex_
  bool has_arrived_ = false;  // guarded by mutex_
  std::mutex user_mutex_;
  std::function<void()> on_user_signal_;  // guarded by user_mutex_
};

}  // namespace beamline
