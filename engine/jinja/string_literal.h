// The escapes of Python's strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace beamline::jinja {

// What a string literal stands for; nullopt, and why, where it has no meaning.
std::optional<std::string> UnescapeString(std::string_view literal, std::string* fault);

}  // namespace beamline::jinja
