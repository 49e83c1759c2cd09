// How far a command has come, on standard error while that is a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "base/status_line.h"
#include "client/cli/cli.h"

namespace beamline::cli {

struct LineProgress {
  size_t num_answered = 0;
  size_t num_sent = 0;
  size_t bytes_sent = 0;
  size_t num_bytes = 0;  // of all lines; 0: not known
};

// " 45% [#########-----------]  450 lines  96/s  0:12 left"; without the bar where it is not known
// how many lines there are.
std::string FormatLineProgress(const LineProgress& progress, double elapsed_s, size_t width);

// "loading write-en  0:07".
std::string FormatWait(const std::string& what, double elapsed_s);

}  // namespace beamline::cli
