// For tests of calls that wait: a call on a thread of its own, known to have come to its wait.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace beamline {

// Of a thread of this process.
inline bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
}

// Starts `call` on a thread and returns when that thread has slept for a while, or is done.
template <typename Call>
auto AsyncUntilAsleep(Call call) {
  constexpr int kLooks =
      20;  // so that a short wait, as for a mutex, is not taken for the one meant
  auto thread = std::make_shared<std::atomic<pid_t>>(0);
  auto result = std::async(std::launch::async, [call, thread] {
    *thread = gettid();
    return call();
  });
  for (int asleep = 0; asleep < kLooks;) {
    if (result.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) break;
    asleep = *thread != 0 && IsAsleep(*thread) ? asleep + 1 : 0;
  }
  return result;
}

}  // namespace beamline
