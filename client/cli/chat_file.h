// A conversation in a JSON file, as --chat takes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"

namespace beamline::cli {

// A list of messages, or an object with "messages" and, if need be, "tools", "documents",
// "template_options", "add_generation_prompt" and "template". Messages have a "role" and what else
// the model's chat template reads of them. INVALID_ARGUMENT naming the file and the fault.
absl::StatusOr<v1::Chat> ReadChatFile(const std::string& path);

}  // namespace beamline::cli
