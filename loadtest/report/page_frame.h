// What all pages for a browser have in common: their head and their style, light and dark.
#pragma once

#include <string>
#include <string_view>

namespace beamline::loadtest {

// The page around `body`, which is markup; the title is any text. It may hold figures of chart.h,
// and tables, cards and grids of the style's classes. Well-formed XML if the body is; its
// Content-Security-Policy lets a browser load nothing for it.
std::string FramePage(std::string_view title, std::string_view body);

}  // namespace beamline::loadtest
