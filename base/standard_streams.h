// Standard input, output and error of a program.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// Call this first in main. Afterwards writing to a closed pipe is an error, not a signal. Linking
// this also keeps standard descriptors occupied that the caller had closed. So no file or
// connection gets their number and receives output for the terminal; using them still fails.
void PrepareStandardStreams();

// Writes to standard output. Errors are reported only by FlushStandardOutput, for texts of any
// length; fmt::print would throw.
void Print(std::string_view text);

// Flushes standard output. Returns an error if any write to it failed.
absl::Status FlushStandardOutput();

// "standard output cannot be written: No space left on device".
absl::Status OutputError(int error);

}  // namespace beamline
