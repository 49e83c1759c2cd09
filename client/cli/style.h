// Colours and bold text, for terminals only.
#pragma once

#include <string>
#include <string_view>

namespace beamline::cli {

enum class ColorMode { kAuto, kAlways, kNever };

// Whether the stream is a terminal that supports cursor control (TERM is set and not "dumb").
bool CanDraw(bool is_terminal);

// Whether to style text on a stream. kAuto: if CanDraw, unless the environment variable NO_COLOR is
// set and not empty (https://no-color.org).
bool UsesColor(ColorMode mode, bool is_terminal);

// Adds style codes to text, or returns it unchanged if off.
class Style {
 public:
  explicit Style(bool on = false) : on_(on) {}

  std::string Strong(std::string_view text) const { return Paint("1", text); }
  std::string Faint(std::string_view text) const { return Paint("2", text); }
  std::string Good(std::string_view text) const { return Paint("32", text); }
  std::string Doubtful(std::string_view text) const { return Paint("33", text); }
  std::string Bad(std::string_view text) const { return Paint("31", text); }
  std::string Reverse(std::string_view text) const { return Paint("7", text); }

 private:
  std::string Paint(std::string_view code, std::string_view text) const;

  bool on_;
};

// The number of visible characters, without style codes.
size_t ShownWidth(std::string_view text);

}  // namespace beamline::cli
