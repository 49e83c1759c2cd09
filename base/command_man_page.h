// Generates manual pages.
#pragma once

#include <string>
#include <vector>

#include "base/command_tree.h"

namespace beamline {

// Text of the page that is not derived from the command line.
struct ManualSection {
  std::string heading;                  // "EXIT STATUS"
  std::vector<std::string> paragraphs;  // a paragraph "NAME: ..." is a list entry for NAME
};

// A page of section 1, with troff's man macros. `version`: "beamline 0.1.0".
std::string ManPage(const CommandNode& program, const std::string& version,
                    const std::vector<ManualSection>& sections);

}  // namespace beamline
