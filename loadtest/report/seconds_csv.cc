#include "loadtest/report/seconds_csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/file.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr const char* kLatencies[] = {"first_token", "per_output_token", "end_to_end"};
constexpr const char* kFigures[] = {"p50", "p90", "p99", "max"};

std::string Header() {
  std::string header = "second,warmup,asked_per_s,sent,ok,error,cut,output_tokens";
  for (const char* latency : kLatencies) {
    for (const char* figure : kFigures) header += fmt::format(",{}_{}_ms", latency, figure);
  }
  return header + ",server_waiting,server_running,server_step_sequences,server_tokens_per_s\n";
}

std::string Cells(const LatencyPoint& point) {
  if (point.count == 0) return ",,,,";
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  return fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g}", ms(point.p50), ms(point.p90), ms(point.p99),
                     ms(point.max));
}

std::string Cell(const std::optional<double>& value) {
  return value ? fmt::format(",{:.6g}", *value) : ",";
}

// The last sample of each second.
std::map<size_t, const ServerSample*> BySecond(const RunReport& report) {
  std::map<size_t, const ServerSample*> samples;
  if (!report.server) return samples;
  for (const ServerSample& sample : report.server->samples) {
    samples[static_cast<size_t>(sample.time_s)] = &sample;
  }
  return samples;
}

}  // namespace

std::string SecondsCsv(const RunReport& report) {
  const auto samples = BySecond(report);
  std::string csv = Header();
  for (size_t i = 0; i < report.summary.seconds.size(); ++i) {
    const Second& second = report.summary.seconds[i];
    const bool is_asked = i < report.load.asked_per_s.size();
    csv += fmt::format("{},{:d}{},{},{},{},{},{}", i, static_cast<double>(i) < report.load.warmup_s,
                       Cell(is_asked ? std::optional(report.load.asked_per_s[i]) : std::nullopt),
                       second.sent, second.ok, second.error, second.cut, second.tokens);
    csv += Cells(second.time_to_first_token) + Cells(second.time_per_output_token) +
           Cells(second.end_to_end);
    const auto found = samples.find(i);
    csv +=
        found == samples.end()
            ? ",,,,"
            : fmt::format(",{:g},{:g}{}{}", found->second->waiting, found->second->running,
                          Cell(found->second->step_sequences), Cell(found->second->tokens_per_s));
    csv += '\n';
  }
  return csv;
}

absl::Status WriteSecondsCsv(const RunReport& report, const std::string& path) {
  return WriteFile("--csv", path, SecondsCsv(report));
}

}  // namespace beamline::loadtest
