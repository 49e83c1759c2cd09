// The sockets on which a server listens.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/net/unique_fd.h"

namespace beamline {

struct ListenSockets {
  std::vector<UniqueFd> sockets;  // one for each address of the host, all on the same port
  int port = 0;                   // the one that was chosen, when 0 was asked for
};

// Listens on every address of `host`: IPv4, IPv6 (in brackets or not) or a name. [::] and 0.0.0.0
// mean all addresses of both families, where the machine has both. The sockets do not block, and
// their connections neither delay small writes nor outlive a peer that has not acknowledged
// anything for `unacknowledged_timeout`. UNAVAILABLE, naming address and reason, when the port is
// taken, also by a server of the same program, or when it cannot listen there.
absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& host, int port,
                                                std::chrono::milliseconds unacknowledged_timeout);

// Whether one of the sockets takes connections of other machines: its address is not one of
// loopback (127.0.0.0/8, ::1).
bool OthersReach(const ListenSockets& sockets);

}  // namespace beamline
