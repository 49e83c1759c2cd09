// beamline_build_info: labels that identify the server's build.
#pragma once

#include <vector>

#include "prometheus/metric_family.h"

namespace beamline {

void CollectBuildMetrics(std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
