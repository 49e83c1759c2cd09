// Metrics of the gRPC port's connections.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"
#include "server/accept/connection_stats.h"

namespace beamline {

// Appends connections accepted, refused and open, and whether new ones are accepted.
void CollectConnections(const ConnectionStats& stats,
                        std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
