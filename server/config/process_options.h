// What the settings say of a model whose ranks are processes.
#pragma once

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/config/server_config.h"

namespace beamline {

// Reads the secret. Errors name the setting: of rank_address without a secret, or without the one
// model whose ranks meet there; of a rank that the model has not.
absl::StatusOr<ProcessOptions> ReadProcessOptions(const ServerConfig& config);

}  // namespace beamline
