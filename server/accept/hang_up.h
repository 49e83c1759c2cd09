// Ends connections whose descriptors a library has, which offers no call for it.
#pragma once

namespace beamline {

// Whether a connection of this process to its own port has bytes on their way that its client has
// not got: when it is closed while it also has bytes that nobody read, they are lost.
bool HasUnsent(int port);

// Shuts down, in the direction `how` (shutdown(2)), every connection of this process to its own
// port, and returns how many there were. Their owner sees the end and closes them. One that comes
// meanwhile may be left out.
int HangUp(int port, int how);

}  // namespace beamline
