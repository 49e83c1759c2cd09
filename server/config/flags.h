// The command line of beamline-server.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/config/server_config.h"

namespace beamline {

struct CommandLine {
  ServerConfig config;  // file, then flags; the demo models when neither names one
  bool print_config = false;
  std::string health_address;  // of --health: the server to ask, host:port; empty: serve
  std::string text;            // of --help or --version: to be printed, and nothing else done
};

// Errors are the operator's mistakes: one line each, for exit status 2.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// "name=folder[,setting=value...]".
absl::StatusOr<ModelOptions> ParseModelFlag(std::string_view text);

}  // namespace beamline
