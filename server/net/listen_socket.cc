#include "server/net/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool operator==(const Address& other) const {
    return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
  }
};

absl::Status CannotListen(const std::string& host, int port, std::string_view reason) {
  return absl::UnavailableError(fmt::format("cannot listen on {}:{}: {}", host, port, reason));
}

std::string Reason(int error) {
  switch (error) {
    case EADDRINUSE:
      return "the address is in use";
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return "the address is not one of this machine";
    default:
      return std::system_category().message(error);
  }
}

absl::StatusOr<std::vector<Address>> Resolve(const std::string& host, int port) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | (bracketed ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    return CannotListen(host, port, fmt::format("no such host: {}", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Address address{.size = info->ai_addrlen};
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    // A hosts file may list an address twice.
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

void SetPort(Address& address, int port) {
  const uint16_t network_order = htons(static_cast<uint16_t>(port));
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = network_order;
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = network_order;
  }
}

// Where the socket is bound; of no family when it is not.
Address AddressOf(int fd) {
  Address address{.size = sizeof(sockaddr_storage)};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return {};
  return address;
}

int PortOf(int fd) {
  const Address address = AddressOf(fd);
  // The port lies at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

bool IsWildcard(const Address& address) {
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == INADDR_ANY;
}

bool IsLoopback(const Address& address) {
  constexpr uint32_t kNetwork = 127;  // 127.0.0.0/8
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return ntohl(v4->sin_addr.s_addr) >> 24 == kNetwork;
}

Address Wildcard(int family, int port) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  SetPort(address, port);
  return address;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

// Invalid, with errno set, when it cannot listen there.
UniqueFd Listen(const Address& address, std::chrono::milliseconds unacknowledged_timeout) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  // So that a server can start again at once. SO_REUSEPORT would let two share the port.
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) {
    SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, IsWildcard(address) ? 0 : 1);
  }
  // Connections inherit these.
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(unacknowledged_timeout.count()));
  if (bind(fd.get(), address.get(), address.size) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  fd.Reset();
  errno = error;
  return fd;
}

// On all addresses, which take the port that the first one gets. The errno of the fault, or 0.
int ListenOnAll(std::vector<Address> addresses, std::chrono::milliseconds unacknowledged_timeout,
                ListenSockets& result) {
  int missing = 0;  // why an address was left out
  for (Address& address : addresses) {
    if (result.port != 0) SetPort(address, result.port);
    UniqueFd fd = Listen(address, unacknowledged_timeout);
    if (!fd.valid()) {
      // A name may have an address of a family that this machine does not use.
      if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) return errno;
      missing = errno;
      continue;
    }
    if (result.port == 0) result.port = PortOf(fd.get());
    result.sockets.push_back(std::move(fd));
  }
  return result.sockets.empty() ? missing : 0;
}

}  // namespace

absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& host, int port,
                                                std::chrono::milliseconds unacknowledged_timeout) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<Address> addresses, Resolve(host, port));
  std::vector<std::vector<Address>> attempts = {addresses};
  if (std::any_of(addresses.begin(), addresses.end(), IsWildcard)) {
    // One socket takes both families, where there is IPv6.
    attempts = {{Wildcard(AF_INET6, port)}, {Wildcard(AF_INET, port)}};
  } else if (port == 0 && addresses.size() > 1) {
    attempts.assign(10, addresses);  // the port of the first address may be taken on another
  }
  int error = 0;
  for (const std::vector<Address>& attempt : attempts) {
    ListenSockets result;
    error = ListenOnAll(attempt, unacknowledged_timeout, result);
    if (error == 0) return result;
    if (error == EADDRINUSE && port != 0) break;
  }
  return CannotListen(host, port, Reason(error));
}

bool OthersReach(const ListenSockets& sockets) {
  return std::ranges::any_of(
      sockets.sockets, [](const UniqueFd& socket) { return !IsLoopback(AddressOf(socket.get())); });
}

}  // namespace beamline
