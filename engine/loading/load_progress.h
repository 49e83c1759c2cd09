// Tells how far a large load is, so that nobody takes it for one that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/checkpoint/checkpoint.h"

namespace beamline {

// A line to `log` for each tenth of the weights' bytes: "read 30% of 16.06 GB of weights in 2.1 s".
class LoadProgress {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Smaller ones are loaded before anybody wonders.
  static constexpr int64_t kLeastBytes = int64_t{1} << 30;

  // `log` may be empty.
  LoadProgress(const Checkpoint& checkpoint, Log log, int64_t least_bytes = kLeastBytes);

  // A tensor is asked for: those that were before it are read. Each counts once. Thread-safe.
  void Ask(std::string_view name, size_t bytes);

 private:
  static constexpr int64_t kLines = 10;

  const Log log_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t total_bytes_ = 0;  // 0: nothing is told
  std::mutex mutex_;         // of what follows
  std::set<std::string, std::less<>> asked_;
  int64_t read_bytes_ = 0;
  int64_t told_ = 0;  // lines, each of a tenth
};

}  // namespace beamline
