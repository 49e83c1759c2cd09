// Errors as OpenAI's API tells them: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "google/rpc/status.pb.h"
#include "server/http/exchange.h"

namespace beamline {

// The status and the headers (Retry-After, WWW-Authenticate) are those of the error's code.
HttpAnswer ErrorAnswer(const google::rpc::Status& error);
// Of what HTTP itself finds fault with.
HttpAnswer ErrorAnswer(int status, const std::string& message, const std::string& code = "");
// The body alone, as a stream tells it that has begun.
std::string ErrorJson(const google::rpc::Status& error);

}  // namespace beamline
