#include "server/net/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr rlim_t kMostDescriptors = 1 << 20;
// For files that are read, and what libraries open.
constexpr int64_t kReserve = 64;
// So many that a flood of thousands passes within 0.1 s, and nobody in it loses his place before he
// has been answered.
constexpr rlim_t kMostSidePlaces = 512;

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t most = std::min(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t CountOpenDescriptors() {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

int32_t SidePlaces() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostSidePlaces;
  return static_cast<int32_t>(std::clamp<rlim_t>(limit.rlim_cur / 16, 8, kMostSidePlaces));
}

int32_t SidePlacesOfPeer() { return SidePlaces() * 3 / 4; }

absl::StatusOr<int32_t> ConnectionsThatFit(int32_t wanted, int32_t num_listeners,
                                           int32_t num_side_listeners) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const int64_t open = CountOpenDescriptors();
  const int64_t left = static_cast<int64_t>(limit.rlim_cur) - open;
  // Even of a small limit connections get three quarters.
  const int64_t reserve = kReserve + int64_t{num_side_listeners} * SidePlaces();
  const int64_t fit = (left - std::min(reserve, left / 4)) / num_listeners;
  if (fit < 1) {
    return absl::UnavailableError(
        fmt::format("the limit of open files (ulimit -n) is {}, of which {} are open already; "
                    "accepted: at least {}",
                    limit.rlim_cur, open, open + 2 * kReserve));
  }
  return static_cast<int32_t>(std::min<int64_t>(wanted, fit));
}

}  // namespace beamline
