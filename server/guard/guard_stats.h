// Whether the guard works, for /metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace beamline {

// Of what connections (self_check.h).
enum class GuardedKind : uint8_t { kPlain, kTls };
// Label values of `kind`.
inline constexpr std::array<std::string_view, 2> kGuardedKindNames = {"plain", "tls"};

enum class GuardState : uint8_t { kUnused, kWorks, kFails };

// By GuardedKind. Written when a server starts, read by any thread.
struct GuardStats {
  std::array<std::atomic<GuardState>, kGuardedKindNames.size()> state{};
};

}  // namespace beamline
