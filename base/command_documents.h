// Output that a program generates from its own command line: completion scripts and its manual
// page.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/command_man_page.h"

namespace beamline {

// Adds "completion SHELL", for a program with subcommands. `app` must outlive the parsing, here and
// below.
void AddCompletionCommand(CLI::App& app);
// Adds "--completion SHELL", for a program without subcommands.
void AddCompletionFlag(CLI::App& app);
// Adds --man-page, a hidden option that the build uses.
void AddManPageFlag(CLI::App& app, const std::string& version, std::vector<ManualSection> sections);

}  // namespace beamline
