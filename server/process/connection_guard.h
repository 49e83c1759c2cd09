// Whether the connections of a server are guarded against floods, and where it listens if not.
#pragma once

#include <array>
#include <string>

#include "absl/status/status.h"
#include "server/config/server_config.h"
#include "server/guard/guard_stats.h"
#include "server/net/listening.h"

namespace beamline {

class ConnectionGuard {
 public:
  // Tests the guard for the kinds of connections that the configuration has (self_check.h), some
  // milliseconds for each. What does not work has a line in the log.
  ConnectionGuard(const ServerConfig& config, GuardStats& stats);

  // INVALID_ARGUMENT, naming the setting, where other machines reach an address of gRPC's whose
  // connections are not guarded, unless allow_unguarded_connections is set.
  absl::Status Check(const std::string& setting, const OpenAddress& address,
                     GuardedKind kind) const;

 private:
  void Test(GuardedKind kind, GuardStats& stats);

  const bool allows_unguarded_;
  std::array<absl::Status, kGuardedKindNames.size()> tested_;  // by GuardedKind
};

}  // namespace beamline
