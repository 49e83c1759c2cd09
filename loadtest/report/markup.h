// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace beamline::loadtest {

// The text as markup shows it, whatever it holds: what is no UTF-8 is U+FFFD, control characters
// are spaces, invisible and reordering ones are written out, as in <U+202E>.
std::string Escape(std::string_view text, size_t max_bytes = 4096);

// Of a text with lines.
std::string EscapeLines(std::string_view text, size_t max_bytes = size_t{64} << 10);

}  // namespace beamline::loadtest
