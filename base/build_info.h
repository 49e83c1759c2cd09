// Identifies this build of Beamline. Nothing here depends on the time or the machine of the build.
#pragma once

#include <string>
#include <string_view>

namespace beamline {

struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view revision;    // of git: "3a935e5a1b2c", "3a935e5a1b2c-modified" or "unknown"
  std::string_view build_type;  // "Release"
  std::string_view compiler;    // "GNU 12.2.0"
  bool cuda;                    // whether the CUDA backend is included
};

const BuildInfo& ThisBuild();

// What --version prints: "beamline 0.1.0 (3a935e5a1b2c, Release, GNU 12.2.0, without CUDA)".
std::string VersionLine(std::string_view program);

}  // namespace beamline
