// The configuration file, YAML with the names of Settings:
//
//   listen: 0.0.0.0:50051
//   algorithm_file: algorithms.txt       # relative to the file, as folders are
//   models:
//     - name: translate-en-de
//       folder: models/translate-en-de   # relative to the file
//       max_batch_tokens: 8192
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/config/server_config.h"

namespace beamline {

// Sets in `config` what the file sets. NOT_FOUND when there is no such file; INVALID_ARGUMENT
// naming the file, the line and the fault; `named_by` is what errors of a file that cannot be read
// say of whence its path is.
absl::Status LoadConfigFile(const std::string& path, ServerConfig& config,
                            std::string_view named_by = "--config");

// `config` as a configuration file: every setting with its value, and paths from the root, so that
// the file means the same wherever it lies.
std::string PrintConfig(ServerConfig config);

}  // namespace beamline
