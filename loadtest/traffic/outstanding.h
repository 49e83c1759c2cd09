// The calls that are under way. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "loadtest/traffic/call.h"

namespace beamline::loadtest {

class Outstanding {
 public:
  // Returns the call to start; it stays valid at least until its observer is told.
  Call* Add(std::unique_ptr<Call> call);
  std::unique_ptr<Call> Remove(Call* call);

  // Calls that have ended are left alone.
  void Cancel(uint64_t index);
  void CancelAll();

  // Waits until at most `count` calls are under way; false when `until` came first.
  bool WaitForAtMost(size_t count, std::chrono::steady_clock::time_point until);

 private:
  std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_map<uint64_t, std::unique_ptr<Call>> calls_;  // by the request's index
};

}  // namespace beamline::loadtest
