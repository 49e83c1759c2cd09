// Metrics of the HTTP listener.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"
#include "server/telemetry/metrics/http_stats.h"

namespace beamline {

// Appends answers by status, and connections refused and open.
void CollectHttp(const HttpStats& stats, std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
