// Describes where and when a result was measured.
#pragma once

#include <map>
#include <string>

namespace beamline::loadtest {

// The load generator's machine: processor, cores that this process may use, memory, operating
// system, kernel.
std::map<std::string, std::string> DescribeMachine();

// The current time in UTC, as ISO 8601.
std::string UtcDate();

}  // namespace beamline::loadtest
