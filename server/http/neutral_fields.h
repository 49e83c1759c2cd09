// Fields of OpenAI's API that change no answer of this server. They are accepted at values that
// promise nothing more; a value that asks for something this server does not do is refused.
#pragma once

#include <string>
#include <string_view>

#include "server/http/json_fields.h"

namespace beamline {

// Of every request: who sends it.
void ReadSender(JsonFields& fields);
// Of completions and chat completions: how OpenAI runs, bills and keeps a request.
void ReadServiceFields(JsonFields& fields);
// Of chat completions: what an answer consists of, and how much thought goes before it. Returns
// reasoning_effort, which some chat templates read; empty where it is not given.
std::string ReadAnswerFields(JsonFields& fields);

}  // namespace beamline
