// Ends connections whose descriptors a library has, which offers no call for it.
#pragma once

namespace beamline {

// Shuts down, in the direction `how` (shutdown(2)), every connection of this process to its own
// port, and returns how many there were. Their owner sees the end and closes them. One that comes
// meanwhile may be left out.
int HangUp(int port, int how);

}  // namespace beamline
