#include "base/build_info.h"

#include "fmt/format.h"

namespace beamline {

// Defined in the file that cmake/write_revision.cmake generates, so that a new commit recompiles
// only that file.
extern const char kRevision[];

const BuildInfo& ThisBuild() {
  static const BuildInfo build = {.version = BEAMLINE_VERSION,
                                  .revision = kRevision,
                                  .build_type = BEAMLINE_BUILD_TYPE,
                                  .compiler = BEAMLINE_COMPILER,
                                  .cuda = BEAMLINE_HAS_CUDA};
  return build;
}

std::string VersionLine(std::string_view program) {
  const BuildInfo& build = ThisBuild();
  return fmt::format("{} {} ({}, {}, {}, {} CUDA)", program, build.version, build.revision,
                     build.build_type, build.compiler, build.cuda ? "with" : "without");
}

}  // namespace beamline
