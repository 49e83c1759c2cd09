// The standard process_* metrics of Prometheus' client libraries, from /proc/self.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"

namespace beamline {

// Appends CPU seconds, memory, file descriptors, threads and the start time.
void CollectProcessMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
