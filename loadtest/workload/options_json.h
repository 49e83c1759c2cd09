// Request options in YAML, read as the JSON form of their message: every field of the contract can
// be set under its own name.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

namespace beamline::loadtest {

// INVALID_ARGUMENT when the message has no such field or the value does not fit it.
absl::Status ReadMessage(const YAML::Node& node, google::protobuf::Message& message);

}  // namespace beamline::loadtest
