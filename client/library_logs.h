// The log lines of the libraries below a client program, gRPC and protobuf, which would stand
// between its own on standard error. What goes wrong with a call is told by its status.
#pragma once

namespace beamline {

// Drops them from now on, except gRPC's where GRPC_VERBOSITY asks for them. For a program to call
// at its beginning: a library must leave this to the program.
void DropLibraryLogs();

}  // namespace beamline
