#include "loadtest/traffic/cancel_timer.h"

namespace beamline::loadtest {

CancelTimer::CancelTimer(Outstanding& outstanding)
    : outstanding_(outstanding), thread_([this] { Run(); }) {}

CancelTimer::~CancelTimer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CancelTimer::CancelAt(TimePoint time, uint64_t index) {
  {
    const std::lock_guard lock(mutex_);
    entries_.emplace(time, index);
  }
  changed_.notify_one();
}

void CancelTimer::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.wait(lock);
    } else if (const auto [time, index] = entries_.top(); time > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, time);
    } else {
      entries_.pop();
      lock.unlock();
      outstanding_.Cancel(index);
      lock.lock();
    }
  }
}

}  // namespace beamline::loadtest
