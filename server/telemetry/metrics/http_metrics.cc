#include "server/telemetry/metrics/http_metrics.h"

#include <string>
#include <utility>

#include "server/telemetry/metrics/families.h"

namespace beamline {

void CollectHttp(const HttpStats& stats, std::vector<prometheus::MetricFamily>& families) {
  auto answers = CounterFamily("beamline_http_answers_total", "Answers over HTTP, by status");
  for (size_t i = 0; i < HttpStats::kStatuses.size(); ++i) {
    const int status = HttpStats::kStatuses[i];
    AddValue(answers, {{"status", status == 0 ? "other" : std::to_string(status)}},
             static_cast<double>(stats.answers[i].load()));
  }
  auto refused = CounterFamily("beamline_http_connections_refused_total",
                               "HTTP connections closed before they could carry a request");
  for (size_t i = 0; i < kRefusalNames.size(); ++i) {
    AddValue(refused, {{"reason", std::string(kRefusalNames[i])}},
             static_cast<double>(stats.connections.refused[i].load()));
  }
  auto open = GaugeFamily("beamline_http_connections_open", "HTTP connections that are open");
  AddValue(open, {}, static_cast<double>(stats.connections.open.load()));
  for (auto* family : {&answers, &refused, &open}) families.push_back(std::move(*family));
}

}  // namespace beamline
