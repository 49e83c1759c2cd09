#include "server/net/received_bytes.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>  // netinet/tcp.h is without tcpi_bytes_received
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "server/net/handshakes.h"
#include "server/net/peer_address.h"

namespace beamline {
namespace {

struct Noted {
  int fd = -1;
  uint64_t identity = 0;  // what the number stands for may be another file by now
};

// Connections that are closed stay until their descriptor's number is used again.
struct NotedConnections {
  std::mutex mutex;
  absl::flat_hash_map<std::string, Noted> by_peer;  // guarded by mutex
  absl::flat_hash_map<int, std::string> peers;      // guarded by mutex
};

NotedConnections& TheNoted() {
  static auto* const registry = new NotedConnections;  // until the last thread has ended
  return *registry;
}

}  // namespace

std::string PeerName(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      return fmt::format("ipv6:%5B{}%5D:{}", AddressText(address), ntohs(v6.sin6_port));
    }
    const unsigned char* const bytes = v6.sin6_addr.s6_addr + 12;
    return fmt::format("ipv4:{}.{}.{}.{}:{}", bytes[0], bytes[1], bytes[2], bytes[3],
                       ntohs(v6.sin6_port));
  }
  if (address.ss_family != AF_INET) return "";
  return fmt::format("ipv4:{}:{}", AddressText(address), PeerPort(fd));
}

void NoteConnection(int fd) {
  const std::string peer = PeerName(fd);
  if (peer.empty()) return;
  NotedConnections& registry = TheNoted();
  std::lock_guard lock(registry.mutex);
  std::string& before = registry.peers[fd];
  const auto old = registry.by_peer.find(before);
  if (old != registry.by_peer.end() && old->second.fd == fd) registry.by_peer.erase(old);
  before = peer;
  registry.by_peer[peer] = {.fd = fd, .identity = SocketIdentity(fd)};
}

std::optional<int64_t> ReceivedBytes(const std::string& peer) {
  Noted noted;
  {
    NotedConnections& registry = TheNoted();
    std::lock_guard lock(registry.mutex);
    const auto found = registry.by_peer.find(peer);
    if (found == registry.by_peer.end()) return std::nullopt;
    noted = found->second;
  }
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(noted.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr auto kEnd =
      offsetof(tcp_info, tcpi_bytes_received) + sizeof(tcp_info::tcpi_bytes_received);
  if (size < kEnd) return std::nullopt;
  int unread = 0;
  if (ioctl(noted.fd, SIOCINQ, &unread) != 0) return std::nullopt;
  // Looked at last: until now it was this connection.
  if (SocketIdentity(noted.fd) != noted.identity) return std::nullopt;
  return std::max<int64_t>(0, static_cast<int64_t>(info.tcpi_bytes_received) - unread);
}

}  // namespace beamline
