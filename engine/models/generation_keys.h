// What the keys of a generation_config.json mean to Beamline: those that generation_defaults.cc
// does not read are harmless or refused, so that no file changes transformers' answers and not
// Beamline's.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/models/config_fields.h"

namespace beamline {

// Names the first key that asks for a way of decoding that is not done here.
void RefuseOtherMethods(ConfigFields& fields, const nlohmann::json& source);

// Names the first key of generation_config.json that nobody knows.
void RefuseUnknownKeys(ConfigFields& fields, const nlohmann::json& source);

}  // namespace beamline
