// Lines of the log that tell an event by named values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace beamline {

struct LogWord {
  std::string text;  // of letters, digits and underscores
};

struct LogField {
  std::string_view name;
  std::variant<LogWord, std::string, int64_t, bool, std::chrono::nanoseconds> value;
};

// `EVENT name=value name="text"`, texts escaped as in C; as JSON an object with the same names and
// `"event":"EVENT"` first.
std::string EventLine(std::string_view event, const std::vector<LogField>& fields, bool json);

}  // namespace beamline
