// Machine-readable output of `beamline top`.
#pragma once

#include <string>

#include "client/cli/output.h"
#include "client/cli/top/server_state.h"

namespace beamline::cli {

// One line of JSON; `time` in RFC 3339. Unknown values are null.
std::string TopJson(const ServerView& view, const std::string& time);

// One row per model; unknown values are empty.
void PrintTopRows(const ServerView& view, const std::string& time, Output& output);

}  // namespace beamline::cli
