// Display names for reports; flags, JSON and proto fields have other names.
#pragma once

#include <string>
#include <string_view>

#include "loadtest/report/report.h"

namespace beamline::loadtest {

// "streamed generation" for "generate_stream"; unknown kinds are returned unchanged.
std::string KindTitle(std::string_view kind);
// A class's name; if that is the name of its kind, the kind's title.
std::string ClassTitle(const ClassSummary& summary);
// "processor" for "cpu": titles for keys of Environment's machine and versions; others are returned
// unchanged.
std::string EnvironmentTitle(std::string_view key);

}  // namespace beamline::loadtest
