// What a server counts of requests that are not whole yet, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Written by any thread.
struct MessageStats {
  std::atomic<int64_t> reading{0};  // messages that are being read
  std::atomic<int64_t> waiting{0};  // calls whose message waits for a place
  std::atomic<int64_t> streams{0};  // streams of requests that wait for their next message
  std::atomic<int64_t> bytes{0};    // that are kept of messages which are not whole, an estimate
  std::atomic<uint64_t> late{0};    // calls that were ended, as their message was not whole
};

}  // namespace beamline
