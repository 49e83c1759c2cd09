#include "server/request_log.h"

#include <string_view>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr size_t kMostIdBytes = 256;  // a longer request_id is refused
constexpr size_t kMostFaultBytes = 2000;

spdlog::level::level_enum LevelOf(const CallRecord& record) {
  if (!record.fault.empty()) return spdlog::level::err;
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

std::string Quoted(std::string_view text, size_t most_bytes) {
  const bool is_long = text.size() > most_bytes;
  return "\"" + absl::CEscape(std::string(text.substr(0, most_bytes))) + (is_long ? "...\"" : "\"");
}

}  // namespace

std::string RequestLine(const CallRecord& record) {
  std::string line =
      fmt::format("request rpc={} model={} request_id={} code={} seconds={:.6f}",
                  kRpcNames[static_cast<size_t>(record.rpc)], Quoted(record.model, kMostIdBytes),
                  Quoted(record.request_id, kMostIdBytes), absl::StatusCodeToString(record.code),
                  std::chrono::duration<double>(record.duration).count());
  if (!record.fault.empty()) line += " fault=" + Quoted(record.fault, kMostFaultBytes);
  return line;
}

void LogRequest(const CallRecord& record) {
  const spdlog::level::level_enum level = LevelOf(record);
  if (spdlog::should_log(level)) spdlog::log(level, "{}", RequestLine(record));
}

}  // namespace beamline
