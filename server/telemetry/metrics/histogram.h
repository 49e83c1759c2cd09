// A histogram without locks: any thread may observe. (prometheus-cpp's own takes a mutex and scans
// its buckets for each observation, and replicas observe every step.)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "prometheus/client_metric.h"

namespace beamline {

class Histogram {
 public:
  // `edges` ascend. As in Prometheus, a value equal to an edge belongs to the bucket below it.
  explicit Histogram(const std::vector<double>& edges);

  void Observe(double value);
  // Cumulative counts; the last bucket is +Inf. A concurrent observation may or may not be
  // included.
  prometheus::ClientMetric::Histogram Snapshot() const;

 private:
  const std::vector<double>& edges_;                 // static storage
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // [num_edges + 1]
  std::atomic<double> sum_{0.0};
};

// Seconds, 100 us to 600 s. Each edge is at most twice the previous one, which bounds the error of
// a quantile. There are no more edges than needed, as a scrape has each edge of each series.
const std::vector<double>& LatencyEdges();
// Powers of two, for the tokens or sequences of a step.
const std::vector<double>& SizeEdges();
// Powers of two up to the longest contexts of models, for the tokens of a request.
const std::vector<double>& TokenEdges();

}  // namespace beamline
