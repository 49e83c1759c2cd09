// Metrics of the engine's models: counters and current state. A model's series exist while it is
// loaded.
#pragma once

#include <vector>

#include "engine/api/engine.h"
#include "prometheus/metric_family.h"

namespace beamline {

void CollectEngine(const Engine& engine, std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
