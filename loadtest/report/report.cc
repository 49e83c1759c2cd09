#include "loadtest/report/report.h"

#include "fmt/format.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace

int64_t ClassSummary::Count(Ending ending) const {
  const auto found = endings.find(EndingName(ending));
  return found == endings.end() ? 0 : found->second;
}

int64_t ClassSummary::NumRequests() const {
  int64_t sum = 0;
  for (const auto& [key, count] : endings) sum += count;
  return sum;
}

void ClassSummary::Merge(const ClassSummary& other) {
  for (const auto& [key, count] : other.endings) endings[key] += count;
  for (const auto& [key, count] : other.codes) codes[key] += count;
  num_items += other.num_items;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  generated_tokens += other.generated_tokens;
  good += other.good;
  time_to_first_token.Merge(other.time_to_first_token);
  inter_token.Merge(other.inter_token);
  time_per_output_token.Merge(other.time_per_output_token);
  end_to_end.Merge(other.end_to_end);
  lateness.Merge(other.lateness);
}

double RunSummary::AchievedRate() const { return PerSecond(total.NumRequests() - 1, sending_s); }

double RunSummary::RequestsPerSecond() const {
  return PerSecond(total.Count(Ending::kOk), elapsed_s);
}

double RunSummary::ItemsPerSecond() const { return PerSecond(total.num_items, elapsed_s); }

double RunSummary::OutputTokensPerSecond() const {
  return PerSecond(total.generated_tokens, elapsed_s);
}

double RunSummary::GoodPerSecond() const { return PerSecond(total.good, elapsed_s); }

std::string LatenessWarning(const ClassSummary& total) {
  const bool streams = total.time_to_first_token.count() > 0;
  const Histogram& shortest = streams ? total.time_to_first_token : total.end_to_end;
  const auto late_ns = static_cast<double>(total.lateness.ValueAtQuantile(0.99));
  const auto median_ns = static_cast<double>(shortest.ValueAtQuantile(0.5));
  if (shortest.count() == 0 || late_ns <= kMostLatenessShare * median_ns) return "";
  return fmt::format(
      "the load generator was late: p99 of the sender's lateness is {} ms, more than {:g}% of the "
      "median {} of {} ms; every latency includes it. Give the load generator processors of its "
      "own, more --threads or a lower rate",
      FormatMs(late_ns), kMostLatenessShare * 100, streams ? "first token" : "end to end",
      FormatMs(median_ns));
}

}  // namespace beamline::loadtest
