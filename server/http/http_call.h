// What the calls of OpenAI's API have in common.
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

// Bodies up to this size are parsed where they arrive, larger ones by the text workers.
inline constexpr size_t kLargeBodyBytes = 4096;

// Who calls, and until when: by the header x-request-timeout-ms. INVALID_ARGUMENT when that is no
// number.
absl::StatusOr<Caller> CallerOf(const HttpRequest& request);

// Answers a call of which nothing is under way, and records it.
void AnswerAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, HttpAnswer answer);
// The same with an error.
void FailAtOnce(Exchange& exchange, std::shared_ptr<CallState> state, const absl::Status& status);

// An unknown model is NOT_FOUND here, as in OpenAI's API, and INVALID_ARGUMENT in the contract.
absl::Status WithUnknownModel(const ServiceContext& services, const std::string& model,
                              const absl::Status& status);

// Seconds since 1970.
int64_t NowInSeconds();

}  // namespace beamline
