#include "loadtest/report/report.h"

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

}  // namespace beamline::loadtest
