// Who has connected, as far as counting connections goes.
#pragma once

#include <sys/socket.h>

#include <string>

namespace beamline {

// The IPv4 address (also of an IPv4 connection to an IPv6 socket), or the first 64 bits of an IPv6
// address: a single machine has all that follow them.
std::string PeerKey(const sockaddr_storage& address);
// "10.0.0.7", "2001:db8::1".
std::string AddressText(const sockaddr_storage& address);
// Of the other end of a connection; 0: it has none.
int PeerPort(int fd);

}  // namespace beamline
