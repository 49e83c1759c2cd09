// Number of threads that write answers.
#pragma once

#include <algorithm>
#include <thread>

#include "server/config/server_config.h"

namespace beamline {

// `writer_threads`, or by the number of cores that the process may use.
inline int NumWriters(const ServerConfig& config) {
  constexpr int kCoresOfAWriter = 4, kMost = 4;
  if (config.writer_threads > 0) return config.writer_threads;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / kCoresOfAWriter, 1, kMost);
}

}  // namespace beamline
