#include "server/net/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>

namespace beamline {

std::string PeerKey(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
    const char* bytes = reinterpret_cast<const char*>(v6.s6_addr);
    return IN6_IS_ADDR_V4MAPPED(&v6) ? std::string(bytes + 12, 4) : std::string(bytes, 8);
  }
  if (address.ss_family == AF_INET) {
    const in_addr& v4 = reinterpret_cast<const sockaddr_in*>(&address)->sin_addr;
    return std::string(reinterpret_cast<const char*>(&v4.s_addr), sizeof(v4.s_addr));
  }
  return "";
}

std::string AddressText(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr, text.data(),
              text.size());
  } else if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text.data(),
              text.size());
  }
  return text.data();
}

int PeerPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return address.ss_family == AF_INET
             ? ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port)
             : 0;
}

}  // namespace beamline
