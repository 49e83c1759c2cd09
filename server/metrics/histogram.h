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

// Seconds: 100 us to 600 s, each edge at most twice the one before, so that a quantile between two
// of them is off by less than that. A scrape has each edge of each series: no more of them than it
// takes.
const std::vector<double>& LatencyEdges();
// Tokens or sequences of a step: powers of two.
const std::vector<double>& SizeEdges();
// Tokens of a request: powers of two, up to the longest contexts that models have.
const std::vector<double>& TokenEdges();

}  // namespace beamline
