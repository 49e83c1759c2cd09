// The escapes of Python's strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace beamline::jinja {

// The value of a string literal; nullopt with *fault set if it is invalid.
std::optional<std::string> UnescapeString(std::string_view literal, std::string* fault);

}  // namespace beamline::jinja
