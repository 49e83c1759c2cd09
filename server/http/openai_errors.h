// Errors in OpenAI's format: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "google/rpc/status.pb.h"
#include "server/http/exchange.h"

namespace beamline {

// The error's code decides the status and the headers (Retry-After, WWW-Authenticate).
HttpAnswer ErrorAnswer(const google::rpc::Status& error);
// An error of HTTP itself.
HttpAnswer ErrorAnswer(int status, const std::string& message, const std::string& code = "");
// The body only, for a stream that has started.
std::string ErrorJson(const google::rpc::Status& error);

}  // namespace beamline
