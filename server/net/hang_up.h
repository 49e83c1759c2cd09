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

// Ends the connections to a port of gRPC's, and waits a moment until gRPC has seen it. A call that
// reaches gRPC while it shuts down would be CANCELLED, as if its client had wished it. So nothing
// more is read of the connections first: calls that have come are answered as ever, those that come
// later meet the end of the connection, which their client takes for UNAVAILABLE and may repeat
// elsewhere. REQUIRES: every call is answered and nobody listens at the port any more.
void HangUpAnswered(int port);

}  // namespace beamline
