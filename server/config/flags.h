// Parses the command line of beamline-server, with the settings of environment and file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/config/environment.h"
#include "server/config/server_config.h"

namespace beamline {

struct CommandLine {
  // From the file, the environment and the flags; later ones override. The demo models if none of
  // them names a model.
  ServerConfig config;
  bool print_config = false;
  std::string health_address;   // of --health: the server to ask, host:port; empty: serve
  bool health_has_tls = false;  // the server at health_address uses TLS
  std::string text;             // of --help or --version: print it and exit
};

// Errors are the operator's mistakes: one line each, for exit status 2.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const Environment& environment);

// Parses "[name=]folder[,setting=value...]". `name`: the option or variable, for errors. The folder
// may be a model of the Hugging Face Hub instead (model_folder.h).
absl::StatusOr<ModelOptions> ParseModel(std::string_view name, std::string_view text);

}  // namespace beamline
