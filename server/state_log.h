// What a server has before it, as lines of its log.
#pragma once

#include "engine/api/engine.h"

namespace beamline {

// Requests of one replica that have a line each; the oldest ones.
inline constexpr size_t kMostStateRequests = 200;

// A line at level info for each replica of each model, `state model=... requests=...`, and behind
// it one for each of its requests, `state_request client=...`. Takes up to some tenths of a second
// a replica, which tells it between two steps. Any thread.
void LogState(const Engine& engine, bool json);

}  // namespace beamline
