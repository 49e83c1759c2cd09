#include "loadtest/report/seconds.h"

#include <algorithm>

namespace beamline::loadtest {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kOpenSeconds = 3;

size_t SecondOf(nanoseconds time) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return static_cast<size_t>(std::max<int64_t>(0, whole));
}

LatencyPoint PointOf(const Histogram& histogram) {
  return {.count = histogram.count(),
          .p50 = histogram.ValueAtQuantile(0.5),
          .p90 = histogram.ValueAtQuantile(0.9),
          .p99 = histogram.ValueAtQuantile(0.99),
          .max = histogram.max()};
}

}  // namespace

Second& SecondSeries::At(nanoseconds time) {
  const size_t index = SecondOf(time);
  if (index >= seconds_.size()) seconds_.resize(index + 1);
  return seconds_[index];
}

void SecondSeries::Add(const RequestRecord& record) {
  ++At(record.sent).sent;
  int streamed = 0;
  for (size_t i = 0; i < record.message_tokens.size() && i < record.token_times.size(); ++i) {
    At(record.token_times[i]).tokens += record.message_tokens[i];
    streamed += record.message_tokens[i];
  }
  Second& second = At(record.end);
  second.tokens += std::max(0, record.generated_tokens - streamed);
  if (record.ending == Ending::kOk) {
    ++second.ok;
    AddLatencies(record);
  } else if (record.ending == Ending::kError) {
    ++second.error;
  } else {
    ++second.cut;
  }
}

void SecondSeries::AddLatencies(const RequestRecord& record) {
  const size_t index = std::max(SecondOf(record.end), first_open_);
  Latencies& latencies = open_[index];
  latencies.end_to_end.Record(record.EndToEnd().count());
  if (const auto time = record.TimeToFirstToken()) {
    latencies.time_to_first_token.Record(time->count());
  }
  if (const auto time = record.TimePerOutputToken()) {
    latencies.time_per_output_token.Record(time->count());
  }
  while (open_.size() > 1 && open_.begin()->first + kOpenSeconds <= index) {
    Summarize(open_.begin()->second, seconds_[open_.begin()->first]);
    open_.erase(open_.begin());
  }
  if (index + 1 > kOpenSeconds) first_open_ = std::max(first_open_, index + 1 - kOpenSeconds);
}

void SecondSeries::Summarize(const Latencies& latencies, Second& second) {
  second.time_to_first_token = PointOf(latencies.time_to_first_token);
  second.time_per_output_token = PointOf(latencies.time_per_output_token);
  second.end_to_end = PointOf(latencies.end_to_end);
}

std::vector<Second> SecondSeries::All() const {
  std::vector<Second> seconds = seconds_;
  for (const auto& [index, latencies] : open_) Summarize(latencies, seconds[index]);
  return seconds;
}

Second SecondSeries::Before(nanoseconds time) const {
  const size_t now = SecondOf(time);
  if (now == 0 || now > seconds_.size()) return {};
  Second second = seconds_[now - 1];
  if (const auto found = open_.find(now - 1); found != open_.end()) {
    Summarize(found->second, second);
  }
  return second;
}

}  // namespace beamline::loadtest
