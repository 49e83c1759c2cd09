// The messages of OpenAI's chat completions as a conversation of the contract.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"
#include "server/http/json_fields.h"

namespace beamline {

// Reads `messages`, `tools`, `tool_choice` and what else a chat template is given. `body`: the text
// that `fields` are of, whose order of members templates print. Faults are fields'.
void ReadChat(JsonFields& fields, std::string_view body, v1::Chat& chat);

}  // namespace beamline
