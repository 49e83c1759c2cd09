// Metrics of the gRPC port's connections.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"
#include "server/guard/guard_stats.h"
#include "server/net/connection_stats.h"

namespace beamline {

// Appends connections accepted, refused and open, and whether new ones are accepted.
void CollectConnections(const ConnectionStats& stats,
                        std::vector<prometheus::MetricFamily>& families);
// Appends whether the guard ends floods, of the kinds of connections that the server has.
void CollectGuard(const GuardStats& stats, std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
