#include "server/http/openai_errors.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"

namespace beamline {
namespace {

// Used if the error has no RetryInfo.
constexpr int64_t kRetrySeconds = 1;

struct Kind {
  int status;
  const char* type;
  const char* code;  // null: no code
};

Kind KindOf(const google::rpc::Status& error) {
  switch (static_cast<absl::StatusCode>(error.code())) {
    case absl::StatusCode::kUnauthenticated:
      return {401, "authentication_error", "invalid_api_key"};
    case absl::StatusCode::kPermissionDenied:
      return {403, "permission_error", "permission_denied"};
    case absl::StatusCode::kNotFound:
      return {404, "invalid_request_error", "model_not_found"};
    case absl::StatusCode::kResourceExhausted:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case absl::StatusCode::kCancelled:
      return {499, "server_error", "cancelled"};
    case absl::StatusCode::kUnimplemented:
      return {501, "server_error", "not_implemented"};
    case absl::StatusCode::kUnavailable:
      return {503, "server_error", "unavailable"};
    case absl::StatusCode::kDeadlineExceeded:
      return {504, "server_error", "deadline_exceeded"};
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return {400, "invalid_request_error", nullptr};
    default:
      return {500, "server_error", "internal_error"};
  }
}

// The field of a BadRequest in the details; empty without one.
std::string FieldOf(const google::rpc::Status& error) {
  google::rpc::BadRequest bad_request;
  for (const auto& detail : error.details()) {
    if (detail.UnpackTo(&bad_request) && bad_request.field_violations_size() > 0) {
      return bad_request.field_violations(0).field();
    }
  }
  return "";
}

// Whole seconds, at least one: the header has no fractions.
int64_t RetrySeconds(const google::rpc::Status& error) {
  google::rpc::RetryInfo retry;
  for (const auto& detail : error.details()) {
    if (!detail.UnpackTo(&retry)) continue;
    return std::max<int64_t>(
        1, retry.retry_delay().seconds() + (retry.retry_delay().nanos() > 0 ? 1 : 0));
  }
  return kRetrySeconds;
}

std::string ToJson(const std::string& message, const std::string& type, const std::string& param,
                   const char* code) {
  nlohmann::ordered_json error = {{"message", message}, {"type", type}};
  error["param"] = param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(param);
  error["code"] = code == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(code);
  const nlohmann::ordered_json whole = {{"error", std::move(error)}};
  return whole.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string ErrorJson(const google::rpc::Status& error) {
  const std::string field = FieldOf(error);
  const Kind kind = KindOf(error);
  return ToJson(error.message(), kind.type, field, kind.code);
}

HttpAnswer ErrorAnswer(const google::rpc::Status& error) {
  HttpAnswer answer;
  answer.status = KindOf(error).status;
  answer.body = ErrorJson(error);
  if (answer.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (answer.status == 429 || answer.status == 503) {
    answer.headers.emplace_back("Retry-After", fmt::format("{}", RetrySeconds(error)));
  }
  return answer;
}

HttpAnswer ErrorAnswer(int status, const std::string& message, const std::string& code) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = ToJson(message, status < 500 ? "invalid_request_error" : "server_error", "",
                       code.empty() ? nullptr : code.c_str());
  return answer;
}

}  // namespace beamline
