// Follows what clients of gRPC's connections send, before gRPC gets it.
//
// gRPC reads its sockets itself and offers no place to look. So this program has a recvmsg(2) of
// its own, which gRPC's library finds in place of the C library's: it receives as that does, and
// looks at what has come by a watched connection. A connection whose client floods it ends there,
// before gRPC has spent anything on the flood.
#pragma once

#include <cstdint>
#include <memory>

#include "server/accept/connection_flood.h"
#include "server/accept/connection_stats.h"

namespace beamline {

// From now on, and before its first byte is received, the connection `fd`, a socket with this
// inode, is watched until it is closed. It speaks HTTP/2 in plain text. `stats`, which outlives it,
// counts a connection that is ended for what its client sends; `flood`, not null, counts what that
// is.
void WatchReceived(int fd, uint64_t inode, std::shared_ptr<ConnectionFlood> flood,
                   ConnectionStats& stats);

}  // namespace beamline
