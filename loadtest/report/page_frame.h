// The head and style of all HTML report pages, with light and dark colours.
#pragma once

#include <string>
#include <string_view>

namespace beamline::loadtest {

// Wraps `body`, which is markup, in a page; the title is plain text. The body may have figures of
// chart.h, and tables, cards and grids with the style's classes. The page is well-formed XML if the
// body is. Its Content-Security-Policy forbids loading anything.
std::string FramePage(std::string_view title, std::string_view body);

}  // namespace beamline::loadtest
