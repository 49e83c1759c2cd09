// A histogram that any thread may observe into without a lock. (prometheus-cpp's own takes a mutex
// and scans its buckets on every observation; replicas observe every step.)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "prometheus/client_metric.h"

namespace beamline {

class Histogram {
 public:
  // Edges ascending; a value equal to an edge belongs to the bucket below it, as Prometheus says.
  explicit Histogram(const std::vector<double>& edges);

  void Observe(double value);
  // Cumulative, with the last bucket at infinity. Of observations made meanwhile, some may be
  // counted and some not.
  prometheus::ClientMetric::Histogram Snapshot() const;

 private:
  const std::vector<double>& edges_;                 // static storage
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // [edges + 1]
  std::atomic<double> sum_{0.0};
};

// Seconds: from 100 us, each edge 1.5x to 2.5x the one before.
const std::vector<double>& LatencyEdges();
// Tokens or sequences: powers of two.
const std::vector<double>& SizeEdges();

}  // namespace beamline
