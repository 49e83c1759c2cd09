// Shows that the guard works in this process: that gRPC receives by the functions which this
// program has in place of libraries' (receive_watch.h, tls_watch.h). Another gRPC may receive by
// others, and nothing but a flood would tell.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "server/guard/guard_stats.h"

namespace beamline {

// The test ends within milliseconds, with or without a guard. On a machine that is overloaded it
// may take as long as this, and a server must not fail to start for that.
inline constexpr std::chrono::milliseconds kGuardTime{10000};

// Has a server of gRPC's, which is there for this alone, take a connection over loopback, on which
// a client sends more frames that ask for nothing than it may. UNAVAILABLE, with what happened,
// where the guard does not end the connection in `time`, or there is no such connection. Takes some
// milliseconds, and leaves nothing.
absl::Status TestGuard(GuardedKind kind, std::chrono::milliseconds time = kGuardTime);

}  // namespace beamline
