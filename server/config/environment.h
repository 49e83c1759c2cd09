// Settings as environment variables: `log_level` is BEAMLINE_LOG_LEVEL. Many programs share an
// environment, so an unknown variable is not an error.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

inline constexpr char kConfigVariable[] = "BEAMLINE_CONFIG";  // like --config
inline constexpr char kPollStrategyVariable[] = "GRPC_POLL_STRATEGY";
// Like --model; several are separated by ';'.
inline constexpr char kModelVariable[] = "BEAMLINE_MODEL";

// Names and values of the variables that start with BEAMLINE_.
using Environment = std::map<std::string, std::string>;

// Checks that gRPC can serve with this value of kPollStrategyVariable, a list of names; null: not
// set. With `none` gRPC does not wait for events. With no name that it knows it ends the process.
absl::Status CheckPollStrategy(const char* value);

// Reads a process's `environ`. An empty variable counts as not set: "${X:-}" in shells and compose
// files makes such variables.
Environment ReadEnvironment(const char* const* variables);

// "max_receive_bytes" → "BEAMLINE_MAX_RECEIVE_BYTES".
std::string VariableName(std::string_view setting);

// A warning for each variable that sets nothing. No warning for variables that other parts of
// Beamline read, or that Kubernetes sets for a Service named "beamline" or "beamline-...".
std::vector<std::string> UnknownVariables(const Environment& environment);

}  // namespace beamline
