#include "server/http/http_call.h"

#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/field_error.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"

namespace beamline {
namespace {

constexpr int64_t kLongestTimeoutMs = int64_t{24} * 3600 * 1000;

}  // namespace

absl::StatusOr<Caller> CallerOf(const HttpRequest& request) {
  std::optional<Clock::time_point> deadline;
  if (request.timeout_ms.has_value()) {
    int64_t time_ms = 0;
    if (!absl::SimpleAtoi(*request.timeout_ms, &time_ms) || time_ms < 1 ||
        time_ms > kLongestTimeoutMs) {
      return FieldError("x-request-timeout-ms", fmt::format("'{}'", Shorten(*request.timeout_ms)),
                        fmt::format("1 to {}", kLongestTimeoutMs));
    }
    deadline = Clock::now() + std::chrono::milliseconds(time_ms);
  }
  Caller caller = MakeCaller(deadline, request.identity, request.client_id, request.host);
  caller.peer = request.host;
  if (request.traceparent.has_value()) {
    caller.trace = ParseTraceParent(*request.traceparent).value_or(TraceContext());
  }
  return caller;
}

void AnswerAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, HttpAnswer answer) {
  state->AddAnswerBytes(static_cast<int64_t>(answer.body.size()));
  exchange.Answer(std::move(answer), [state = std::move(state)](bool sent) {
    if (!sent) state->SetUnsent();
    state->Done();
  });
}

void FailAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, const absl::Status& status) {
  HttpAnswer answer = ErrorAnswer(state->Fail(status));
  AnswerAtOnce(exchange, std::move(state), std::move(answer));
}

absl::Status WithUnknownModel(const ServiceContext& services, const std::string& model,
                              const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) || model.empty()) return status;
  const auto fault = GetFieldFault(status);
  if (!fault.has_value() || fault->field != "model") return status;
  if (services.models.Find(model) != nullptr) return status;
  return absl::NotFoundError(status.message());
}

int64_t NowInSeconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace beamline
