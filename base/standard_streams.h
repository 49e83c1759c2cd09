// Standard input, output and error of a program.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// To be called first in main. A pipe that nobody reads any more is an error of write from now on
// and no signal. A program that links this has standard descriptors that its caller closed kept
// occupied from its start, so that no file or connection gets their number and what was meant for a
// terminal; using them fails as before.
void PrepareStandardStreams();

// Writes to standard output. What fails is told by FlushStandardOutput alone, of a text of any
// length; fmt::print throws when it meets it.
void Print(std::string_view text);

// Writes out what stdio holds for standard output. An error when any write to it failed.
absl::Status FlushStandardOutput();

// "standard output cannot be written: No space left on device".
absl::Status OutputError(int error);

}  // namespace beamline
