// Helpers to build metric families.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace beamline {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

inline prometheus::MetricFamily MakeFamily(std::string name, std::string help,
                                           prometheus::MetricType type) {
  return {std::move(name), std::move(help), type, {}};
}

inline prometheus::MetricFamily CounterFamily(std::string name, std::string help) {
  return MakeFamily(std::move(name), std::move(help), prometheus::MetricType::Counter);
}

inline prometheus::MetricFamily GaugeFamily(std::string name, std::string help) {
  return MakeFamily(std::move(name), std::move(help), prometheus::MetricType::Gauge);
}

// Adds one sample of a counter or gauge.
inline void AddValue(prometheus::MetricFamily& family, MetricLabels labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  if (family.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
}

}  // namespace beamline
