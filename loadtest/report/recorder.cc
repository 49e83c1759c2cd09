#include "loadtest/report/recorder.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kMaxErrorExamples = 5;
constexpr size_t kMaxExamplesOfACode = 3;

double Seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Recorder::Recorder(const std::vector<ClassName>& classes, Slo slo, nanoseconds warmup,
                   nanoseconds until)
    : slo_(slo), warmup_(warmup), until_(until) {
  for (const ClassName& name : classes) {
    ClassSummary& summary = summary_.classes.emplace_back();
    summary.name = name.name;
    summary.kind = name.kind;
  }
}

absl::Status Recorder::OpenLog(const std::string& path) {
  log_.open(path);
  if (!log_) return absl::InvalidArgumentError(fmt::format("--log {} cannot be written", path));
  log_path_ = path;
  return absl::OkStatus();
}

absl::Status Recorder::CloseLog() {
  const std::lock_guard lock(mutex_);
  if (!log_.is_open()) return absl::OkStatus();
  log_.close();
  if (log_) return absl::OkStatus();
  return absl::DataLossError(fmt::format("--log {} was not written to its end", log_path_));
}

void Recorder::Record(const RequestRecord& record) {
  const std::lock_guard lock(mutex_);
  if (log_.is_open()) Log(record);
  seconds_.Add(record);
  ++num_recorded_;
  num_failed_ += record.ending == Ending::kError ? 1 : 0;
  if (record.ending == Ending::kOk && record.end >= warmup_ && record.end < until_) {
    ++summary_.num_answered_in_time;
  }
  if (record.intended < warmup_) {
    ++summary_.num_warmup;
    return;
  }
  first_sent_ = std::min(first_sent_, record.sent);
  last_sent_ = std::max(last_sent_, record.sent);
  last_end_ = std::max(last_end_, record.end);

  ClassSummary& summary = summary_.classes[record.class_index];
  ++summary.endings[EndingName(record.ending)];
  ++summary.codes[record.code];
  summary.generated_tokens += record.generated_tokens;
  summary.lateness.Record(record.Lateness().count());
  if (record.ending == Ending::kError) RecordError(record);
  if (record.ending != Ending::kOk) return;

  summary.num_items += record.num_items;
  summary.prompt_tokens += record.prompt_tokens;
  summary.cached_tokens += record.cached_tokens;
  summary.good += slo_.IsMetBy(record) ? 1 : 0;
  summary.end_to_end.Record(record.EndToEnd().count());
  if (const auto time = record.TimeToFirstToken()) {
    summary.time_to_first_token.Record(time->count());
  }
  if (const auto time = record.TimePerOutputToken()) {
    summary.time_per_output_token.Record(time->count());
  }
  for (size_t i = 1; i < record.token_times.size(); ++i) {
    summary.inter_token.Record((record.token_times[i] - record.token_times[i - 1]).count());
  }
}

void Recorder::RecordError(const RequestRecord& record) {
  const std::string message = Shorten(record.message, kMaxErrorLineBytes);
  const std::string& name = summary_.classes[record.class_index].name;
  if (summary_.error_examples.size() < kMaxErrorExamples) {
    summary_.error_examples.push_back(
        fmt::format("request {} ({}): {}: {}", record.index, name, record.code, message));
  }
  ErrorSummary& errors = summary_.errors[record.code];
  ++errors.count;
  const auto known = std::find(errors.messages.begin(), errors.messages.end(), message);
  if (known == errors.messages.end() && errors.messages.size() < kMaxExamplesOfACode) {
    errors.messages.push_back(message);
  }
}

Progress Recorder::ProgressAt(nanoseconds now) const {
  const std::lock_guard lock(mutex_);
  return {.time = now,
          .num_ended = num_recorded_,
          .num_failed = num_failed_,
          .last = seconds_.Before(now)};
}

RunSummary Recorder::Summarize() const {
  const std::lock_guard lock(mutex_);
  RunSummary summary = summary_;
  summary.total.name = "all";
  for (const ClassSummary& one : summary.classes) summary.total.Merge(one);
  summary.seconds = seconds_.All();
  summary.sending_s = Seconds(std::max(nanoseconds{0}, last_sent_ - first_sent_));
  summary.elapsed_s = Seconds(std::max(nanoseconds{0}, last_end_ - warmup_));
  return summary;
}

void Recorder::Log(const RequestRecord& record) {
  nlohmann::json line = {
      {"index", record.index},
      {"class", summary_.classes[record.class_index].name},
      {"intended_s", Seconds(record.intended)},
      {"sent_s", Seconds(record.sent)},
      {"end_s", Seconds(record.end)},
      {"ending", EndingName(record.ending)},
      {"code", record.code},
      {"items", record.num_items},
      {"prompt_tokens", record.prompt_tokens},
      {"cached_tokens", record.cached_tokens},
      {"generated_tokens", record.generated_tokens},
  };
  if (!record.client.empty()) line["client"] = record.client;
  if (!record.message.empty()) line["message"] = record.message;
  if (!record.token_times.empty()) {
    nlohmann::json& times = line["token_times_s"] = nlohmann::json::array();
    for (const nanoseconds time : record.token_times) times.push_back(Seconds(time));
  }
  log_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace beamline::loadtest
