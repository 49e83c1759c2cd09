// What `beamline top` prints for programs.
#pragma once

#include <string>

#include "client/cli/output.h"
#include "client/cli/top/server_state.h"

namespace beamline::cli {

// One line; `time` as RFC 3339 writes it. What is not known is null.
std::string TopJson(const ServerView& view, const std::string& time);

// A row for each model; what is not known is empty.
void PrintTopRows(const ServerView& view, const std::string& time, Output& output);

}  // namespace beamline::cli
