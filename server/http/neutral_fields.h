// Fields of OpenAI's API that change no answer of this server. They are accepted with values that
// ask for nothing. Values that ask for something unsupported are refused.
#pragma once

#include <string>
#include <string_view>

#include "server/http/json_fields.h"

namespace beamline {

// Reads the field of every request that names the end user.
void ReadSender(JsonFields& fields);
// Reads fields of completions and chat completions: how OpenAI runs, bills and stores a request.
void ReadServiceFields(JsonFields& fields);
// Reads fields of chat completions: the parts of an answer, and the reasoning effort. Returns
// reasoning_effort, which some chat templates read; empty if not given.
std::string ReadAnswerFields(JsonFields& fields);

}  // namespace beamline
