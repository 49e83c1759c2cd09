// Spares gRPC's texts of errors for people who debug it. gRPC 1.51 notes in each status that is not
// OK the time at which it was made, as a text, and writes all that a status holds into a text when
// its call ends, for whoever asks for that: clients with a debug_error_string, and filters that
// this program has none of. It is a twelfth of what a refused call takes
// (docs/decisions/0026-admission.md). Codes and messages stay as they are.
#pragma once

namespace beamline {

// From now on, and for good. Other versions of gRPC go on as they are.
void SpareErrorNotes();

}  // namespace beamline
