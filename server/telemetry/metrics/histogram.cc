#include "server/telemetry/metrics/histogram.h"

#include <algorithm>
#include <limits>

namespace beamline {

Histogram::Histogram(const std::vector<double>& edges)
    : edges_(edges), counts_(std::make_unique<std::atomic<uint64_t>[]>(edges.size() + 1)) {}

void Histogram::Observe(double value) {
  const auto edge = std::lower_bound(edges_.begin(), edges_.end(), value);
  counts_[static_cast<size_t>(edge - edges_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

prometheus::ClientMetric::Histogram Histogram::Snapshot() const {
  prometheus::ClientMetric::Histogram snapshot;
  for (size_t i = 0; i <= edges_.size(); ++i) {
    snapshot.sample_count += counts_[i].load(std::memory_order_relaxed);
    const double edge = i < edges_.size() ? edges_[i] : std::numeric_limits<double>::infinity();
    snapshot.bucket.push_back({snapshot.sample_count, edge});
  }
  snapshot.sample_sum = sum_.load(std::memory_order_relaxed);
  return snapshot;
}

const std::vector<double>& LatencyEdges() {
  static const std::vector<double> edges = {
      0.0001, 0.0002, 0.0003, 0.0005, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.005,
      0.007,  0.01,   0.015,  0.02,   0.03,   0.05,  0.07,   0.1,   0.15,  0.2,
      0.3,    0.5,    0.7,    1,      1.5,    2,     3,      5,     7,     10,
      15,     20,     30,     50,     70,     100,   150,    200,   300,   600};
  return edges;
}

const std::vector<double>& SizeEdges() {
  static const std::vector<double> edges = {1,   2,   4,   8,    16,   32,   64,
                                            128, 256, 512, 1024, 2048, 4096, 8192};
  return edges;
}

const std::vector<double>& TokenEdges() {
  static const std::vector<double> edges = [] {
    std::vector<double> powers;
    for (double edge = 1; edge <= 1 << 20; edge *= 2) powers.push_back(edge);
    return powers;
  }();
  return edges;
}

}  // namespace beamline
