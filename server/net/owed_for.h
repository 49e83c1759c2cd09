// Whose turn it is on a connection, by the kernel's account.
#pragma once

#include <chrono>
#include <optional>

namespace beamline {

// For how long the other end of a TCP connection has owed bytes: it has all that was sent, two
// round trips have passed, and nothing has come since. None: it owes nothing, or the kernel does
// not tell.
std::optional<std::chrono::milliseconds> OwedFor(int fd);

}  // namespace beamline
