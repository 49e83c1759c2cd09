#include "server/request_log.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "server/log_event.h"
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

std::string Cut(std::string_view text, size_t most_bytes) {
  return std::string(text.substr(0, most_bytes)) + (text.size() > most_bytes ? "..." : "");
}

std::vector<LogField> FieldsOf(const CallRecord& record) {
  using std::chrono::nanoseconds;
  std::vector<LogField> fields = {
      {"rpc", LogWord{std::string(kRpcNames[static_cast<size_t>(record.rpc)])}},
      {"model", Cut(record.model, kMostIdBytes)},
      {"request_id", Cut(record.request_id, kMostIdBytes)},
      {"code", LogWord{absl::StatusCodeToString(record.code)}},
      {"seconds", record.duration}};
  if (!record.client.empty()) {
    fields.push_back(
        {record.is_identity ? "identity" : "client", Cut(record.client, kMostIdBytes)});
  }
  if (!record.peer.empty()) fields.push_back({"peer", Cut(record.peer, kMostIdBytes)});
  if (!record.trace.trace_id.empty()) {
    fields.push_back({"trace_id", LogWord{record.trace.trace_id}});
    fields.push_back({"parent_span_id", LogWord{record.trace.span_id}});
  }
  if (record.request_bytes > 0) fields.push_back({"request_bytes", record.request_bytes});
  if (record.answer_bytes > 0) fields.push_back({"answer_bytes", record.answer_bytes});
  if (record.timing.total > nanoseconds::zero()) {
    fields.push_back({"prompt_tokens", record.usage.prompt_tokens});
    fields.push_back({"cached_tokens", record.usage.cached_tokens});
    fields.push_back({"generated_tokens", record.usage.generated_tokens});
    fields.push_back({"queue_seconds", record.timing.queue});
    if (record.timing.first_token > nanoseconds::zero()) {
      fields.push_back({"first_token_seconds", record.timing.first_token});
    }
  }
  if (!record.fault.empty()) fields.push_back({"fault", Cut(record.fault, kMostFaultBytes)});
  return fields;
}

}  // namespace

std::string RequestLine(const CallRecord& record, bool json) {
  return EventLine("request", FieldsOf(record), json);
}

void LogRequest(const CallRecord& record, const RequestLogOptions& options) {
  const spdlog::level::level_enum level = LevelOf(record, options.all);
  if (spdlog::should_log(level)) spdlog::log(level, "{}", RequestLine(record, options.json));
}

}  // namespace beamline
