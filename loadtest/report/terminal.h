// Formats reports for terminals.
#pragma once

#include <string>

#include "loadtest/report/report.h"

namespace beamline::loadtest {

// One line about the requested load.
std::string FormatLoad(const LoadDescription& load);

// The whole report of a run.
std::string FormatReport(const RunReport& report);

}  // namespace beamline::loadtest
