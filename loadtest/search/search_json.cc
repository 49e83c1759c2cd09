#include "loadtest/search/search_json.h"

#include "base/file.h"
#include "loadtest/report/result_json.h"

namespace beamline::loadtest {
namespace {

using nlohmann::json;

constexpr char kSchema[] = "beamline.loadtest.search/1";

json ProbeToJson(const Probe& probe, const ProbeLimits& limits) {
  json object = {{"rate_per_s", probe.rate},
                 {"warmup_s", probe.warmup_s},
                 {"duration_s", probe.duration_s},
                 {"sent_per_s", probe.sent_per_s},
                 {"answered_per_s", probe.answered_per_s},
                 {"requests", probe.total.NumRequests()},
                 {"errors", probe.total.Count(Ending::kError)},
                 {"unanswered", probe.total.Count(Ending::kStopped)},
                 {"codes", probe.total.codes},
                 {"lateness", HistogramToJson(probe.total.lateness)},
                 {"interrupted", probe.interrupted},
                 {"holds", probe.holds},
                 {"why", probe.why}};
  for (const Latency& latency : kLatencies) {
    object[latency.key] = HistogramToJson(probe.total.*latency.histogram);
  }
  object["objectives_ms"] = json::array();
  for (const Objective& objective : limits.objectives) {
    const bool any = (probe.total.*objective.latency->histogram).count() > 0;
    object["objectives_ms"].push_back(any ? json(objective.ValueMs(probe.total)) : json(nullptr));
  }
  return object;
}

json LimitsToJson(const ProbeLimits& limits) {
  json objectives = json::array();
  for (const Objective& objective : limits.objectives) {
    objectives.push_back({{"latency", objective.latency->key},
                          {"percentile", objective.percentile},
                          {"limit_ms", objective.limit_ms}});
  }
  return {{"objectives", std::move(objectives)},
          {"max_error_share", limits.max_error_share},
          {"max_lateness_ms", limits.max_lateness_ms},
          {"min_answered_share", limits.min_answered}};
}

}  // namespace

json ToJson(const SearchReport& report) {
  json probes = json::array();
  for (const Probe& probe : report.probes) probes.push_back(ProbeToJson(probe, report.limits));
  // The index of a probe and its rate, or null.
  const auto found = [&](const std::optional<size_t>& index) {
    if (!index) return json(nullptr);
    return json{{"probe", *index}, {"rate_per_s", report.probes[*index].rate}};
  };
  json highest = found(report.Highest());
  if (highest.is_object()) highest["is_lower_bound"] = report.IsLowerBound();
  json knee = found(report.Knee());
  if (knee.is_object()) knee["of"] = report.KneeFigure().Name();
  return {{"schema", kSchema},
          {"label", report.label},
          {"environment", EnvironmentToJson(report.environment)},
          {"load", LoadToJson(report.load)},
          {"limits", LimitsToJson(report.limits)},
          {"search",
           {{"min_rate_per_s", report.range.lowest},
            {"max_rate_per_s", report.range.highest},
            {"growth", report.range.growth},
            {"precision", report.range.precision},
            {"tries", report.tries},
            {"settle_s", report.settle_s},
            {"max_time_s", report.max_time_s},
            {"elapsed_s", report.elapsed_s},
            {"probes", report.probes.size()},
            {"end", SearchEndName(report.end)},
            {"fault", report.fault}}},
          {"has_verdict", report.HasVerdict()},
          {"highest", std::move(highest)},
          {"lowest_failing", found(report.LowestFailing())},
          {"knee", std::move(knee)},
          {"conclusion", report.Conclusion()},
          {"probes", std::move(probes)}};
}

absl::Status WriteSearchJson(const SearchReport& report, const std::string& path) {
  return WriteFile("--json", path,
                   ToJson(report).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace beamline::loadtest
