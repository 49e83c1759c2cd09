// Counts of incomplete requests, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Written by any thread.
struct MessageStats {
  std::atomic<int64_t> reading{0};  // messages that are being read
  std::atomic<int64_t> waiting{0};  // calls whose message waits for a slot
  std::atomic<int64_t> streams{0};  // streams of requests that wait for their next message
  std::atomic<int64_t> bytes{0};    // estimated bytes of incomplete messages
  std::atomic<uint64_t> late{0};    // calls ended because their message was not complete
};

}  // namespace beamline
