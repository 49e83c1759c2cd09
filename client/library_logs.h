// Log lines of gRPC and protobuf, which would mix with the program's own on standard error. A
// call's status tells what went wrong.
#pragma once

namespace beamline {

// Drops these lines from now on; gRPC's are kept if GRPC_VERBOSITY is set. Programs call this at
// their start; libraries must leave it to the program.
void DropLibraryLogs();

}  // namespace beamline
