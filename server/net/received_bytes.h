// How much a client has sent by its connection, as the system counts it. gRPC reads the sockets and
// does not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace beamline {

// Before the connection `fd`, a TCP socket, is handed over to gRPC: it is found by its peer from
// now on, until it is closed.
void NoteConnection(int fd);
// The bytes that have been read of the connection, by the peer as gRPC names it
// ("ipv4:10.0.0.7:4711"). None when it is not noted or closed, or when the system does not tell.
std::optional<int64_t> ReceivedBytes(const std::string& peer);
// The peer of a connection as gRPC names it; empty without one.
std::string PeerName(int fd);

}  // namespace beamline
