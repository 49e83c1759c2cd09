#include "server/process/shutdown_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "server/telemetry/log/logging.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  struct sigaction hang_up;
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&signals, SIGHUP);
  }
  return signals;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([this] { Watch(); }).detach();  // waits for signals until the process ends
}

void ShutdownSignal::StartServing() {
  std::lock_guard lock(mutex_);
  serving_ = true;
}

void ShutdownSignal::Request() {
  {
    std::lock_guard lock(mutex_);
    has_arrived_ = true;
  }
  arrived_.notify_all();
}

void ShutdownSignal::Wait() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return has_arrived_; });
}

void ShutdownSignal::OnUserSignal(std::function<void()> handle) {
  std::lock_guard lock(user_mutex_);
  on_user_signal_ = std::move(handle);
}

int ShutdownSignal::Next() {
  const sigset_t signals = Signals();
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal != SIGUSR1) return signal;
    std::lock_guard lock(user_mutex_);
    if (on_user_signal_ != nullptr) on_user_signal_();
  }
}

void ShutdownSignal::Watch() {
  Next();
  {
    std::lock_guard lock(mutex_);
    // A load needs no orderly end, and may take minutes.
    if (!serving_) {
      spdlog::info("stopped before it served");
      FlushLog();
      _exit(0);
    }
  }
  Request();
  const int second = Next();
  FlushLog();
  _exit(128 + second);
}

}  // namespace beamline
