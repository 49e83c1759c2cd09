#include "loadtest/traffic/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "fmt/format.h"

namespace beamline::loadtest {

absl::Status TraceRecorder::Check(const Workload& workload) {
  for (const RequestClass& of : workload.classes) {
    if (of.kind != Kind::kGenerate && of.kind != Kind::kGenerateStream) {
      return absl::InvalidArgumentError(
          fmt::format("{}: kind is '{}'; accepted with --record-trace: generate, generate_stream",
                      of.name, KindName(of.kind)));
    }
  }
  return absl::OkStatus();
}

void TraceRecorder::Add(const RequestRecord& record) {
  const bool answered = record.ending == Ending::kOk;
  const auto length = [answered](int asked, int counted) {
    if (asked > 0) return asked;
    return answered ? counted : 0;
  };
  const TraceEntry entry{
      .time = record.intended,
      .prompt_tokens = length(record.asked_prompt_tokens, record.prompt_tokens),
      .output_tokens = length(record.asked_output_tokens, record.longest_sequence),
      .line = static_cast<int32_t>(record.index)};
  const std::lock_guard lock(mutex_);
  if (entry.prompt_tokens < 1 || entry.output_tokens < 1) {
    ++num_left_out_;
  } else {
    trace_.push_back(entry);
  }
}

absl::Status TraceRecorder::Write(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::ranges::sort(trace_, {},
                    [](const TraceEntry& entry) { return std::pair(entry.time, entry.line); });
  return WriteFile("--record-trace", path, TraceCsv(trace_));
}

}  // namespace beamline::loadtest
