// Colours and weights of text, for terminals alone.
#pragma once

#include <string>
#include <string_view>

namespace beamline::cli {

enum class ColorMode { kAuto, kAlways, kNever };

// Whether the stream is a terminal that can be drawn on, as TERM says.
bool CanDraw(bool is_terminal);

// Whether text for a stream is to be styled. kAuto: where that can be drawn on, unless the
// environment has a NO_COLOR that is not empty (https://no-color.org).
bool UsesColor(ColorMode mode, bool is_terminal);

// Puts text into a style, or leaves it as it is.
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

// The characters that show; a style takes no place.
size_t ShownWidth(std::string_view text);

}  // namespace beamline::cli
