// The command line of beamline-server, with the settings of its environment and its file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/config/environment.h"
#include "server/config/server_config.h"

namespace beamline {

struct CommandLine {
  // The file, then the environment, then the flags; the demo models when none of them names one.
  ServerConfig config;
  bool print_config = false;
  std::string health_address;   // of --health: the server to ask, host:port; empty: serve
  bool health_has_tls = false;  // of that server
  std::string text;             // of --help or --version: to be printed, and nothing else done
};

// Errors are the operator's mistakes: one line each, for exit status 2.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const Environment& environment);

// "[name=]folder[,setting=value...]"; `name` is what errors call it. The folder may be a model of
// the Hub instead (model_folder.h).
absl::StatusOr<ModelOptions> ParseModel(std::string_view name, std::string_view text);

}  // namespace beamline
