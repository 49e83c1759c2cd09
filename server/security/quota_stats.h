// Counters of token quotas, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Written by TokenQuotas, read by any thread.
struct QuotaStats {
  std::atomic<uint64_t> used_tokens{0};     // by finished requests
  std::atomic<uint64_t> refused_tokens{0};  // the maximum that refused requests would have used
  std::atomic<int64_t> clients{0};          // clients with a bucket
};

}  // namespace beamline
