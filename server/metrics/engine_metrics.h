// What a scrape says of the engine's models: their counters and the state of the moment. A model's
// series are there as long as the model.
#pragma once

#include <vector>

#include "engine/api/engine.h"
#include "prometheus/metric_family.h"

namespace beamline {

void CollectEngine(const Engine& engine, std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
