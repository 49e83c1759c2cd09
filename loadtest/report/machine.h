// Where and when a result was measured.
#pragma once

#include <map>
#include <string>

namespace beamline::loadtest {

// Processor, number of its cores that this process may use, memory, kernel: what a figure depends
// on.
std::map<std::string, std::string> DescribeMachine();

// Now, as ISO 8601 in UTC.
std::string UtcDate();

}  // namespace beamline::loadtest
