// Tells the watch of a connection (frame_watch.h) which calls were answered over it. A call knows
// its connection by the peer's name alone, as gRPC says it ("ipv4:10.0.0.7:4711").
#pragma once

#include <memory>
#include <string>

#include "server/guard/connection_flood.h"

namespace beamline {

// The connection of this peer counts what its client sends here, until another one has the name or
// `flood` has no other owner. Any thread.
void NoteFlood(const std::string& peer, const std::shared_ptr<ConnectionFlood>& flood);
// A call of this peer was answered, all of it and without an error. No effect where none is noted.
// Any thread.
void CountAnswered(const std::string& peer);

}  // namespace beamline
