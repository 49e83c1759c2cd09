// How a line of the log looks.
#pragma once

#include <memory>
#include <string_view>

#include "spdlog/formatter.h"

namespace beamline {

// What a message begins with that is a JSON object with members of its own.
inline constexpr std::string_view kEventBegin = "{\"event\":";

// "2026-11-22T00:41:07.123+00:00 info TEXT"; as JSON {"time":"...","level":"info",
// "message":"TEXT"}, and of a message that is an object, its members in place of "message".
std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool json);

}  // namespace beamline
