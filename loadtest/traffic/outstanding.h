// The calls in flight. Thread-safe.
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
  // Returns the call, which the caller starts. It stays valid at least until its observer is
  // called.
  Call* Add(std::unique_ptr<Call> call);
  std::unique_ptr<Call> Remove(Call* call);

  // Ignores calls that have ended.
  void Cancel(uint64_t index);
  void CancelAll();

  // Waits until at most `count` calls are in flight; false if `until` comes first.
  bool WaitForAtMost(size_t count, std::chrono::steady_clock::time_point until);

 private:
  std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_map<uint64_t, std::unique_ptr<Call>> calls_;  // by the request's index
};

}  // namespace beamline::loadtest
