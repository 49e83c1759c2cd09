#include "fmt/format.h"
#include "loadtest/search/search_report.h"

namespace beamline::loadtest {
namespace {

// Quoted, because reasons may contain commas.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Cells(const Histogram& histogram) {
  if (histogram.count() == 0) return ",,,,";
  std::string cells;
  for (const double quantile : {0.5, 0.9, 0.99, 1.0}) {
    cells += fmt::format(",{:.6g}", static_cast<double>(histogram.ValueAtQuantile(quantile)) / 1e6);
  }
  return cells;
}

}  // namespace

std::string SearchCsv(const SearchReport& report) {
  std::string csv =
      "asked_per_s,warmup_s,duration_s,sent_per_s,answered_per_s,requests,ok,error,"
      "unanswered,lateness_p99_ms";
  for (const Latency& latency : kLatencies) {
    for (const char* figure : {"p50", "p90", "p99", "max"}) {
      csv += fmt::format(",{}_{}_ms", latency.key, figure);
    }
  }
  csv += ",holds,why\n";
  for (const Probe& probe : report.probes) {
    const ClassSummary& total = probe.total;
    csv += fmt::format("{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{},{:.6g}", probe.rate,
                       probe.warmup_s, probe.duration_s, probe.sent_per_s, probe.answered_per_s,
                       total.NumRequests(), total.Count(Ending::kOk), total.Count(Ending::kError),
                       total.Count(Ending::kStopped),
                       static_cast<double>(total.lateness.ValueAtQuantile(0.99)) / 1e6);
    for (const Latency& latency : kLatencies) csv += Cells(total.*latency.histogram);
    csv += fmt::format(",{:d},{}\n", probe.holds, Quoted(probe.why));
  }
  return csv;
}

}  // namespace beamline::loadtest
