// Reads a conversation from a JSON file, for --chat.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"

namespace beamline::cli {

// The file has a list of messages, or an object with "messages" and optionally "tools",
// "documents", "template_options", "add_generation_prompt" and "template". A message has a "role"
// and other members that the model's chat template reads. INVALID_ARGUMENT naming the file and the
// fault.
absl::StatusOr<v1::Chat> ReadChatFile(const std::string& path);

}  // namespace beamline::cli
