// Counts of request spans, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

struct SpanStats {
  std::atomic<uint64_t> exported{0};  // accepted by a collector
  std::atomic<uint64_t> dropped{0};   // queue full, or not accepted by the collector
};

}  // namespace beamline
