// Formats values as text: Python's printf-style formatting, str.format and json.dumps.
#pragma once

#include <string>
#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

// format % value.
Value PercentFormat(Run& run, const std::string& format, const Value& value);
// format.format(...).
Value BraceFormat(Run& run, const std::string& format, const Args& args);

struct JsonStyle {
  bool ascii = false;
  bool sorts_keys = false;
  bool has_indent = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string DumpJson(Run& run, const Value& value, const JsonStyle& style);

}  // namespace beamline::jinja
