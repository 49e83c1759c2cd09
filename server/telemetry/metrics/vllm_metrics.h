// Gauges that the Kubernetes Gateway API inference extension and common autoscalers read, with
// vLLM's names and labels (docs/decisions/0075-names-of-vllm.md).
#pragma once

#include <vector>

#include "engine/api/engine.h"
#include "prometheus/metric_family.h"

namespace beamline {

void CollectVllm(const Engine& engine, std::vector<prometheus::MetricFamily>& families);

}  // namespace beamline
