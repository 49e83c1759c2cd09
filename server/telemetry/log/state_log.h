// Logs a server's running and waiting requests.
#pragma once

#include "engine/api/engine.h"

namespace beamline {

// Limit of requests logged per replica: the oldest ones.
inline constexpr size_t kMostStateRequests = 200;

// Logs a line at level info for each replica of each model, `state model=... requests=...`,
// followed by one for each of its requests, `state_request client=...`. Takes up to some tenths of
// a second a replica, which answers between two steps. Any thread.
void LogState(const Engine& engine, bool json);

}  // namespace beamline
