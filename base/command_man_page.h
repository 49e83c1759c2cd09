// Manual pages.
#pragma once

#include <string>
#include <vector>

#include "base/command_tree.h"

namespace beamline {

// What a page says besides what the command line itself knows.
struct ManualSection {
  std::string heading;                  // "EXIT STATUS"
  std::vector<std::string> paragraphs;  // one that begins "NAME: " explains NAME
};

// The page of section 1, in the man macros of troff. `version`: "beamline 0.1.0".
std::string ManPage(const CommandNode& program, const std::string& version,
                    const std::vector<ManualSection>& sections);

}  // namespace beamline
