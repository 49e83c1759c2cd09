// Follows what clients of gRPC's connections send in TLS, as receive_watch.h does in plain text.
//
// gRPC deciphers what it has received by OpenSSL's SSL_read, of which this program has one of its
// own that its libraries find in place of OpenSSL's: it reads as that does, and looks at what has
// come where a server speaks HTTP/2. A connection whose client floods it is told as broken. What
// comes first shows, too, that its handshake is finished, which began when gRPC made OpenSSL's part
// of a connection that it was handed (handshakes.h).
#pragma once

#include "server/accept/connection_stats.h"

namespace beamline {

// Connections of this process's servers are watched from now on; `stats` counts those that end.
// Null, before it goes: nothing is watched.
void WatchTls(ConnectionStats* stats);

}  // namespace beamline
