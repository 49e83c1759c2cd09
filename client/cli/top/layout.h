// How `beamline top` looks: a pure function of what it shows and of the terminal's size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/style.h"
#include "client/cli/top/server_state.h"

namespace beamline::cli {

// What stands around the figures.
struct TopFrame {
  std::string url;
  double interval_s = 0;
  std::string time;       // of the figures: "14:03:22"
  std::string fault;      // why there are no newer figures; empty: these are new
  bool has_keys = false;  // whether a key ends it, which the head then says
};

// Lines of at most `width` characters. Where the figures do not fit, the columns that tell least
// are left out.
std::vector<std::string> LayOutTop(const ServerView& view, const TopFrame& frame, size_t width,
                                   const Style& style);

// At most `height` of the lines; the last one tells how many are missing.
std::vector<std::string> FitHeight(std::vector<std::string> lines, size_t height);

// "850us", "3.1ms", "45ms", "2.5s", "3.2m"; "-" for nothing.
std::string ShortDuration(const std::optional<double>& seconds);
// "0", "0.25", "7.5", "123", "12.3k", "4.5M"; "-" for nothing.
std::string ShortNumber(const std::optional<double>& number);

}  // namespace beamline::cli
