#include "server/net/hang_up.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

namespace beamline {
namespace {

// How long the last answers may take to reach their readers.
constexpr std::chrono::milliseconds kSendTime{100};
// How long gRPC may take to see that connections have ended.
constexpr std::chrono::milliseconds kHangUpTime{300};
constexpr std::chrono::milliseconds kPollInterval{2};

int PortOf(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return -1;
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

bool IsConnectionTo(int port, int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         PortOf(own) == port &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0;
}

// Calls for the descriptor of each connection of this process to its own port.
template <typename Visit>
void VisitConnections(int port, const Visit& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    const int fd = std::atoi(it->path().filename().c_str());
    if (IsConnectionTo(port, fd)) visit(fd);
  }
}

}  // namespace

bool HasUnsent(int port) {
  bool found = false;
  VisitConnections(port, [&found](int fd) {
    int bytes = 0;
    found = found || (ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
  });
  return found;
}

int HangUp(int port, int how) {
  int count = 0;
  VisitConnections(port, [&count, how](int fd) {
    shutdown(fd, how);
    ++count;
  });
  return count;
}

void HangUpAnswered(int port) {
  const auto sent = std::chrono::steady_clock::now() + kSendTime;
  while (HasUnsent(port) && std::chrono::steady_clock::now() < sent) {
    std::this_thread::sleep_for(kPollInterval);
  }
  const auto ended = std::chrono::steady_clock::now() + kHangUpTime;
  while (HangUp(port, SHUT_RD) > 0 && std::chrono::steady_clock::now() < ended) {
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace beamline
