// Common functions of the calls of OpenAI's API.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/http/exchange.h"
#include "server/http/openai_errors.h"

namespace beamline {

// Bodies up to this size are parsed on the connection's thread, larger ones by the text workers.
inline constexpr size_t kLargeBodyBytes = 4096;

// The caller, with the deadline of the header x-request-timeout-ms. INVALID_ARGUMENT if that is not
// a number.
absl::StatusOr<Caller> CallerOf(const HttpRequest& request);

// Answers a call that has no running work, and records it.
void AnswerAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, HttpAnswer answer);
// The same with an error.
void FailAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, const absl::Status& status);

// Replaces the error for an unknown model by NOT_FOUND, as in OpenAI's API. It is INVALID_ARGUMENT
// in our own API.
absl::Status WithUnknownModel(const ServiceContext& services, const std::string& model,
                              const absl::Status& status);

// Seconds since 1970.
int64_t NowInSeconds();

}  // namespace beamline
