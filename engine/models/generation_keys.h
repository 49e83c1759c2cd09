// Classifies the keys of generation_config.json. A key that generation_defaults.cc does not read is
// either harmless or rejected. So no file changes the answers of transformers but not those of
// Beamline.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/models/config_fields.h"

namespace beamline {

// Reports the first key that requests an unsupported decoding method.
void RefuseOtherMethods(ConfigFields& fields, const nlohmann::json& source);

// Reports the first unknown key of generation_config.json.
void RefuseUnknownKeys(ConfigFields& fields, const nlohmann::json& source);

}  // namespace beamline
