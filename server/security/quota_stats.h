// What quotas of tokens have counted, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Written by TokenQuotas, read by any thread.
struct QuotaStats {
  std::atomic<uint64_t> used_tokens{0};     // of requests that are over
  std::atomic<uint64_t> refused_tokens{0};  // that refused requests might have used
  std::atomic<int64_t> clients{0};          // that are being counted
};

}  // namespace beamline
