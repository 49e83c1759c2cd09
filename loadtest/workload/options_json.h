// Reads request options in YAML as the JSON form of their message, so every proto field can be set
// by its name.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

namespace beamline::loadtest {

// INVALID_ARGUMENT if the message has no such field or the value does not fit it.
absl::Status ReadMessage(const YAML::Node& node, google::protobuf::Message& message);

}  // namespace beamline::loadtest
