// The format of a log line.
#pragma once

#include <memory>
#include <string_view>

#include "spdlog/formatter.h"

namespace beamline {

// A message that is a JSON object with its own members begins with this.
inline constexpr std::string_view kEventBegin = "{\"event\":";

// Text: "2026-11-22T00:41:07.123+00:00 info TEXT". JSON:
// {"time":"...","level":"info","message":"TEXT"}. If the message is a JSON object, its members
// replace "message".
std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool json);

}  // namespace beamline
