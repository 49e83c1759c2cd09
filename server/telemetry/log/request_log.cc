#include "server/telemetry/log/request_log.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "server/telemetry/log/log_event.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr size_t kMostIdBytes = 256;  // a longer request_id is refused
constexpr size_t kMostFaultBytes = 2000;

spdlog::level::level_enum LevelOf(const CallRecord& record, bool all) {
  if (!record.fault.empty()) return spdlog::level::err;
  if (all) return spdlog::level::info;
  switch (record.code) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return spdlog::level::debug;
    default:
      return spdlog::level::info;
  }
}

// Adds a client's text, cut to `most_bytes`.
void AddCut(std::string_view name, std::string_view text, size_t most_bytes, EventLine& line) {
  if (text.size() <= most_bytes) return line.AddText(name, text);
  line.AddText(name, std::string(text.substr(0, most_bytes)) + "...");
}

void Add(const CallRecord& record, EventLine& line) {
  using std::chrono::nanoseconds;
  line.AddWord("rpc", kRpcNames[static_cast<size_t>(record.rpc)]);
  AddCut("model", record.model, kMostIdBytes, line);
  AddCut("request_id", record.request_id, kMostIdBytes, line);
  line.AddWord("code", absl::StatusCodeToString(record.code));
  line.AddSeconds("seconds", record.duration);
  if (!record.client.empty()) {
    AddCut(record.is_identity ? "identity" : "client", record.client, kMostIdBytes, line);
  }
  if (!record.peer.empty()) AddCut("peer", record.peer, kMostIdBytes, line);
  if (!record.trace.trace_id.empty()) {
    line.AddWord("trace_id", record.trace.trace_id);
    line.AddWord("parent_span_id", record.trace.span_id);
  }
  if (record.request_bytes > 0) line.AddNumber("request_bytes", record.request_bytes);
  if (record.answer_bytes > 0) line.AddNumber("answer_bytes", record.answer_bytes);
  if (record.timing.total > nanoseconds::zero()) {
    line.AddNumber("prompt_tokens", record.usage.prompt_tokens);
    line.AddNumber("cached_tokens", record.usage.cached_tokens);
    line.AddNumber("generated_tokens", record.usage.generated_tokens);
    line.AddSeconds("queue_seconds", record.timing.queue);
    if (record.timing.first_token > nanoseconds::zero()) {
      line.AddSeconds("first_token_seconds", record.timing.first_token);
    }
  }
  if (!record.fault.empty()) AddCut("fault", record.fault, kMostFaultBytes, line);
}

}  // namespace

std::string RequestLine(const CallRecord& record, bool json) {
  EventLine line("request", json);
  Add(record, line);
  return std::string(line.End());
}

void LogRequest(const CallRecord& record, const RequestLogOptions& options) {
  const spdlog::level::level_enum level = LevelOf(record, options.all);
  if (!spdlog::should_log(level)) return;
  EventLine line("request", options.json);
  Add(record, line);
  const std::string_view text = line.End();
  spdlog::log(level, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace beamline
