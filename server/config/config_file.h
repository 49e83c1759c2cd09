// The configuration file: YAML with the names of Settings.
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

// Sets in `config` what the file sets. NOT_FOUND if the file does not exist. INVALID_ARGUMENT
// naming the file, the line and the fault. `named_by`: the option or variable that gave the path,
// for errors of a file that cannot be read.
absl::Status LoadConfigFile(const std::string& path, ServerConfig& config,
                            std::string_view named_by = "--config");

// `config` as a configuration file: every setting with its value. Paths are absolute, so that the
// file can be moved.
std::string PrintConfig(ServerConfig config);

}  // namespace beamline
