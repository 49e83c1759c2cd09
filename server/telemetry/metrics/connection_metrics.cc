#include "server/telemetry/metrics/connection_metrics.h"

#include <string>
#include <utility>

#include "server/telemetry/metrics/families.h"

namespace beamline {

void CollectConnections(const ConnectionStats& stats,
                        std::vector<prometheus::MetricFamily>& families) {
  auto accepted = CounterFamily("beamline_connections_accepted_total",
                                "Connections whose client began to speak HTTP/2");
  AddValue(accepted, {}, static_cast<double>(stats.accepted.load()));
  auto refused = CounterFamily("beamline_connections_refused_total",
                               "Connections closed before they could carry a call");
  for (size_t i = 0; i < kRefusalNames.size(); ++i) {
    AddValue(refused, {{"reason", std::string(kRefusalNames[i])}},
             static_cast<double>(stats.refused[i].load()));
  }
  auto paced = CounterFamily("beamline_connections_paced_total",
                             "Connections that waited, as their address had opened many");
  AddValue(paced, {}, static_cast<double>(stats.paced.load()));
  auto errors = CounterFamily("beamline_accept_errors_total",
                              "Attempts to accept a connection that failed for want of something");
  AddValue(errors, {}, static_cast<double>(stats.accept_errors.load()));
  auto open = GaugeFamily("beamline_connections_open", "Connections that are open");
  AddValue(open, {{"state", "silent"}}, static_cast<double>(stats.silent.load()));
  AddValue(open, {{"state", "speaking"}}, static_cast<double>(stats.open.load()));
  auto accepting = GaugeFamily("beamline_accepting", "Whether new connections are taken");
  AddValue(accepting, {}, stats.accepting.load() ? 1 : 0);
  for (auto* family : {&accepted, &refused, &paced, &errors, &open, &accepting}) {
    families.push_back(std::move(*family));
  }
}

void CollectGuard(const GuardStats& stats, std::vector<prometheus::MetricFamily>& families) {
  auto guard = GaugeFamily("beamline_connection_guard",
                           "Whether connections whose clients flood them are ended");
  for (size_t i = 0; i < kGuardedKindNames.size(); ++i) {
    const GuardState state = stats.state[i];
    if (state == GuardState::kUnused) continue;
    AddValue(guard, {{"kind", std::string(kGuardedKindNames[i])}},
             state == GuardState::kWorks ? 1 : 0);
  }
  families.push_back(std::move(guard));
}

}  // namespace beamline
