#include "server/process/connection_guard.h"

#include <atomic>
#include <cstddef>

#include "base/field_error.h"
#include "fmt/format.h"
#include "server/guard/self_check.h"
#include "server/net/listen_socket.h"
#include "spdlog/spdlog.h"

namespace beamline {

ConnectionGuard::ConnectionGuard(const ServerConfig& config, GuardStats& stats)
    : allows_unguarded_(config.allow_unguarded_connections) {
  const bool has_tls = !config.tls_certificate_file.empty();
  if (has_tls) Test(GuardedKind::kTls, stats);
  // Health has an address in plain text beside one in TLS.
  if (!has_tls || config.health_listen != "off") Test(GuardedKind::kPlain, stats);
}

void ConnectionGuard::Test(GuardedKind kind, GuardStats& stats) {
  const auto index = static_cast<size_t>(kind);
  // What the loader has bound stays bound: a process is tested once.
  static std::array<std::atomic<bool>, kGuardedKindNames.size()> shown{};
  if (!shown[index]) tested_[index] = TestGuard(kind);
  const bool works = tested_[index].ok();
  shown[index] = works;
  stats.state[index] = works ? GuardState::kWorks : GuardState::kFails;
  if (works) return;
  spdlog::error(
      "CONNECTIONS ARE NOT GUARDED ({}): {}; a client that floods a connection is not stopped, and "
      "may take all memory and processor time",
      kGuardedKindNames[index], std::string(tested_[index].message()));
}

absl::Status ConnectionGuard::Check(const std::string& setting, const OpenAddress& address,
                                    GuardedKind kind) const {
  const absl::Status& tested = tested_[static_cast<size_t>(kind)];
  if (tested.ok() || allows_unguarded_ || !OthersReach(address.sockets)) return absl::OkStatus();
  return FieldError(
      setting,
      fmt::format("{}, which other machines reach, and its connections are not guarded ({})",
                  address.text, std::string(tested.message())),
      "127.0.0.1 or [::1], or any address with allow_unguarded_connections, behind a proxy that "
      "bounds what clients cancel");
}

}  // namespace beamline
