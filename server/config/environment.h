// The server's settings as environment variables: of the setting `log_level` it is
// BEAMLINE_LOG_LEVEL. An environment is shared by many programs, so one that Beamline does not
// know is no error.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

inline constexpr char kConfigVariable[] = "BEAMLINE_CONFIG";  // as --config
inline constexpr char kPollStrategyVariable[] = "GRPC_POLL_STRATEGY";
inline constexpr char kModelVariable[] = "BEAMLINE_MODEL";  // as --model, ';' between several

// Values by name, of variables that begin with BEAMLINE_.
using Environment = std::map<std::string, std::string>;

// Whether gRPC can serve with this value of kPollStrategyVariable, a list of names; null: not set.
// With `none` it waits for nothing, and without any name that it knows it ends the process.
absl::Status CheckPollStrategy(const char* value);

// Of a process' `environ`. A variable that is empty counts as one that is not set, as it comes of
// "${X:-}" in shells and compose files.
Environment ReadEnvironment(const char* const* variables);

// "max_receive_bytes" → "BEAMLINE_MAX_RECEIVE_BYTES".
std::string VariableName(std::string_view setting);

// A line for each variable that sets nothing, and that neither another part of Beamline reads nor
// Kubernetes makes for a Service called "beamline" or "beamline-...".
std::vector<std::string> UnknownVariables(const Environment& environment);

}  // namespace beamline
