// Converts the messages of OpenAI chat completions to the API's Chat.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"
#include "server/http/json_fields.h"

namespace beamline {

// Reads `messages`, `tools`, `tool_choice` and the other inputs of a chat template. `body`: the
// JSON text of `fields`. Templates print its members in their original order. Errors go to
// `fields`.
void ReadChat(JsonFields& fields, std::string_view body, v1::Chat& chat);

}  // namespace beamline
