#include "loadtest/report/compare.h"

#include <utility>

#include "fmt/format.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

std::string P50AndP99(const Histogram& histogram) {
  if (histogram.count() == 0) return "–";
  return fmt::format("{} / {}", FormatMs(static_cast<double>(histogram.ValueAtQuantile(0.5))),
                     FormatMs(static_cast<double>(histogram.ValueAtQuantile(0.99))));
}

}  // namespace

std::vector<std::vector<std::string>> ComparisonRows(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"result", "asked/s", "sent/s", "requests/s", "tokens/s", "good/s", "errors",
       "first token p50 / p99 ms", "inter-token", "end to end"}};
  for (const Result& result : results) {
    rows.push_back({result.label,
                    result.asked_rate > 0 ? FormatNumber(result.asked_rate) : "closed",
                    FormatNumber(result.achieved_rate), FormatNumber(result.requests_per_s),
                    FormatNumber(result.output_tokens_per_s),
                    result.has_slo ? FormatNumber(result.good_per_s) : "–",
                    std::to_string(result.num_errors), P50AndP99(result.time_to_first_token),
                    P50AndP99(result.inter_token), P50AndP99(result.end_to_end)});
  }
  return rows;
}

std::string FormatComparison(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = ComparisonRows(results);
  TextTable table(std::move(rows[0]));
  for (size_t i = 1; i < rows.size(); ++i) table.AddRow(std::move(rows[i]));
  return table.ToString();
}

}  // namespace beamline::loadtest
