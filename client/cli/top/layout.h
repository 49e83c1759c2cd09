// The layout of `beamline top`: a pure function of the figures and the terminal's size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/style.h"
#include "client/cli/top/server_state.h"

namespace beamline::cli {

// Header information around the figures.
struct TopFrame {
  std::string url;
  double interval_s = 0;
  std::string time;       // of the figures: "14:03:22"
  std::string fault;      // why there are no newer figures; empty: these are current
  bool has_keys = false;  // whether a key quits; the title then says so
};

// Lines of at most `width` characters. If the figures do not fit, the least important columns are
// left out.
std::vector<std::string> LayOutTop(const ServerView& view, const TopFrame& frame, size_t width,
                                   const Style& style);

// At most `height` of the lines; the last one then says how many are missing.
std::vector<std::string> FitHeight(std::vector<std::string> lines, size_t height);

// "850us", "3.1ms", "45ms", "2.5s", "3.2m"; "-" if absent.
std::string ShortDuration(const std::optional<double>& seconds);
// "0", "0.25", "7.5", "123", "12.3k", "4.5M"; "-" if absent.
std::string ShortNumber(const std::optional<double>& number);

}  // namespace beamline::cli
