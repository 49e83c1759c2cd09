// Formats a command's progress for standard error, if that is a terminal.
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
  size_t num_bytes = 0;  // of the whole input; 0: unknown
};

// " 45% [#########-----------]  450 lines  96/s  0:12 left"; without the bar if the input's size is
// unknown.
std::string FormatLineProgress(const LineProgress& progress, double elapsed_s, size_t width);

// "loading write-en  0:07".
std::string FormatWait(const std::string& what, double elapsed_s);

}  // namespace beamline::cli
