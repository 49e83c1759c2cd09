// The log lines of the libraries below a client program, gRPC and protobuf, which would stand
// between its own on standard error. What goes wrong with a call is told by its status.
#pragma once

namespace beamline {

// From now on they are dropped; gRPC's are not when GRPC_VERBOSITY asks for them. For programs, at
// their beginning: a library must leave this to them.
void DropLibraryLogs();

}  // namespace beamline
