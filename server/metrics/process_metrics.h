// The process_* metrics that Prometheus' client libraries agree on, from /proc/self.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"

namespace beamline {

// Appends CPU seconds, memory, file descriptors, threads and the start time.
void CollectProcessMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
