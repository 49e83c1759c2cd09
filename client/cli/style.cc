#include "client/cli/style.h"

#include <cstdlib>

#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool CanDraw(bool is_terminal) {
  const std::string_view terminal = Variable("TERM");
  return is_terminal && !terminal.empty() && terminal != "dumb";
}

bool UsesColor(ColorMode mode, bool is_terminal) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  return CanDraw(is_terminal) && Variable("NO_COLOR").empty();
}

std::string Style::Paint(std::string_view code, std::string_view text) const {
  return on_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

size_t ShownWidth(std::string_view text) {
  size_t width = 0;
  bool in_style = false;
  for (const char c : text) {
    if (in_style) {
      in_style = c != 'm';
    } else if (c == '\x1b') {
      in_style = true;
    } else if (!IsContinuationByte(c)) {
      ++width;
    }
  }
  return width;
}

}  // namespace beamline::cli
