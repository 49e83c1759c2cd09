// Escapes text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace beamline::loadtest {

// Escapes any text. Bytes that are not UTF-8 become U+FFFD, control characters become spaces.
// Invisible and reordering characters are written as <U+202E>.
std::string Escape(std::string_view text, size_t max_bytes = 4096);

// For a text of several lines.
std::string EscapeLines(std::string_view text, size_t max_bytes = size_t{64} << 10);

}  // namespace beamline::loadtest
