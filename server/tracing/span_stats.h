// What becomes of the spans of requests, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

struct SpanStats {
  std::atomic<uint64_t> exported{0};  // a collector has them
  std::atomic<uint64_t> dropped{0};   // no place in the queue, or the collector did not take them
};

}  // namespace beamline
