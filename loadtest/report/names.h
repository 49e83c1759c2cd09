// What reports call things, for people: flags, JSON and the contract have names of their own.
#pragma once

#include <string>
#include <string_view>

#include "loadtest/report/report.h"

namespace beamline::loadtest {

// "streamed generation" of "generate_stream"; a kind that is not known is its own name.
std::string KindTitle(std::string_view kind);
// A class's name or, of a class that is named after its kind, the kind's title.
std::string ClassTitle(const ClassSummary& summary);
// "processor" of "cpu": keys of Environment's machine and versions; others are their own names.
std::string EnvironmentTitle(std::string_view key);

}  // namespace beamline::loadtest
