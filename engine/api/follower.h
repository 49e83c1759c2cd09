// Followers: processes that compute a part of a model whose requests another process answers.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/api/engine.h"

namespace beamline {

// Computes as the rank in options.processes, for one front (rank 0) after another. Calls `log` when
// a front connects and when it disconnects. Returns UNAVAILABLE when no front connects within the
// time limit. Also returns when this process does not match the front or cannot load its part; the
// error names the difference. REQUIRES: rank > 0, and one model that uses tensor_parallel.
absl::Status FollowFronts(const EngineOptions& options,
                          const std::function<void(const std::string& line)>& log);

}  // namespace beamline
