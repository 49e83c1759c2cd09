// Follows what clients of gRPC's connections send, before gRPC gets it.
//
// gRPC reads its sockets itself and offers no place to look. So this program has a recvmsg(2) of
// its own, which gRPC's library finds in place of the C library's: it receives as that does, and
// looks at what has come by a watched connection. A connection whose client floods it ends there,
// before gRPC has spent anything on the flood.
#pragma once

#include <memory>

#include "server/guard/connection_flood.h"

namespace beamline {

// From now on, and before its first byte is received, the connection `fd`, a socket, is watched
// until it is closed. It speaks HTTP/2 in plain text. `flood`, not null, counts what its client
// sends, and is told before the connection ends for it.
void WatchReceived(int fd, std::shared_ptr<ConnectionFlood> flood);

}  // namespace beamline
