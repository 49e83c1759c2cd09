// Reports for terminals.
#pragma once

#include <string>

#include "loadtest/report/report.h"

namespace beamline::loadtest {

// The load that was asked for, in a line.
std::string FormatLoad(const LoadDescription& load);

// The report of a run as people read it.
std::string FormatReport(const RunReport& report);

}  // namespace beamline::loadtest
