// What a program tells of its own command line: completion scripts and its manual page.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/command_man_page.h"

namespace beamline {

// "completion SHELL", for a program that has commands. `app` outlives the parsing, as below.
void AddCompletionCommand(CLI::App& app);
// "--completion SHELL", for a program that has none.
void AddCompletionFlag(CLI::App& app);
// --man-page, which no help shows: it is for the build.
void AddManPageFlag(CLI::App& app, const std::string& version, std::vector<ManualSection> sections);

}  // namespace beamline
