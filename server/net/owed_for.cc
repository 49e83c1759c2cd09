#include "server/net/owed_for.h"

// The C library's <netinet/tcp.h> has an older tcp_info, and the two exclude each other.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace beamline {

std::optional<std::chrono::milliseconds> OwedFor(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_data_segs_out) + sizeof(__u32);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) {
    return std::nullopt;
  }
  const bool has_all = info.tcpi_data_segs_out > 0 && info.tcpi_unacked == 0;
  if (!has_all || info.tcpi_last_data_recv < info.tcpi_last_data_sent) return std::nullopt;
  const auto round_trips =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::microseconds(2 * info.tcpi_rtt));
  return std::max(std::chrono::milliseconds(info.tcpi_last_data_sent) - round_trips,
                  std::chrono::milliseconds(0));
}

}  // namespace beamline
