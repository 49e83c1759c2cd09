// A process that computes a part of a model that another process answers with.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/api/engine.h"

namespace beamline {

// Computes as the rank that options.processes names, for one front after the other, each of whose
// beginnings and ends `log` is told. Returns when no front comes within the time limit
// (UNAVAILABLE), and when this process does not fit the front, or cannot load its part: an error
// that names what differs. REQUIRES: a rank above 0, one model that tensor_parallel divides.
absl::Status FollowFronts(const EngineOptions& options,
                          const std::function<void(const std::string& line)>& log);

}  // namespace beamline
