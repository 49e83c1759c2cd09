// Whether a model's settings are what they may be.
#pragma once

#include "absl/status/status.h"
#include "engine/api/model.h"

namespace beamline {

// By kModelSettings. INVALID_ARGUMENT names the setting, its value and what is accepted.
absl::Status CheckModelOptions(const ModelOptions& options);

}  // namespace beamline
