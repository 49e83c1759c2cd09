// The options of a model whose ranks are processes.
#pragma once

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/config/server_config.h"

namespace beamline {

// Reads the options and the secret. Errors name the setting: rank_address without a secret or
// without exactly one model of several ranks; a rank that this model does not have.
absl::StatusOr<ProcessOptions> ReadProcessOptions(const ServerConfig& config);

}  // namespace beamline
