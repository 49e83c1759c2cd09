// Counters of an HTTP listener, for /metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "server/net/connection_stats.h"

namespace beamline {

// Written by any thread.
struct HttpStats {
  // Statuses with a counter of their own. Others are counted in the last, "other".
  static constexpr std::array<int, 17> kStatuses = {200, 400, 401, 403, 404, 405, 408, 413, 415,
                                                    417, 429, 431, 500, 501, 503, 504, 0};

  ConnectionStats connections;
  std::array<std::atomic<uint64_t>, kStatuses.size()> answers{};

  void Count(int status) {
    size_t place = 0;
    while (kStatuses[place] != status && kStatuses[place] != 0) ++place;
    ++answers[place];
  }
};

}  // namespace beamline
