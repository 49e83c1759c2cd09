#include "loadtest/report/progress.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {

std::string FormatProgress(const Progress& progress, uint64_t num_sent, double warmup_s,
                           double until_s) {
  const double now_s = std::chrono::duration<double>(progress.time).count();
  const auto num_open = std::max<int64_t>(0, static_cast<int64_t>(num_sent) - progress.num_ended);
  std::string line =
      fmt::format("{:>4.0f}/{:.0f} s  {} sent  {} open  {} ended/s  {} tokens/s", now_s, until_s,
                  num_sent, num_open, progress.last.ok, progress.last.tokens);
  const auto add = [&line](const char* name, const LatencyPoint& point) {
    if (point.count == 0) return;
    line += fmt::format("  {} p50 {} p99 {} ms", name, FormatMs(static_cast<double>(point.p50)),
                        FormatMs(static_cast<double>(point.p99)));
  };
  add("first token", progress.last.time_to_first_token);
  add("end to end", progress.last.end_to_end);
  if (progress.num_failed > 0) line += fmt::format("  {} errors", progress.num_failed);
  if (now_s < warmup_s) line += "  (warm-up)";
  if (now_s > until_s) line += "  (waiting for the last answers)";
  return line;
}

}  // namespace beamline::loadtest
