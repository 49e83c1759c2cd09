#include "loadtest/traffic/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace beamline::loadtest {
namespace {

// Must parse as an address: a name such as "127.evil.example" is not one.
bool IsLoopbackIpv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

bool IsLoopbackIpv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
}

}  // namespace

bool IsLoopback(std::string_view target) {
  for (const std::string_view scheme : {"unix:", "unix-abstract:"}) {
    if (target.starts_with(scheme)) return true;
  }
  for (const std::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    break;
  }
  if (target.find_first_of("/,") != std::string_view::npos) return false;
  if (target.starts_with('[')) {
    return IsLoopbackIpv6(std::string(target.substr(1, target.find(']') - 1)));
  }
  if (IsLoopbackIpv6(std::string(target))) return true;
  const std::string host(target.substr(0, target.rfind(':')));
  return host == "localhost" || IsLoopbackIpv4(host);
}

}  // namespace beamline::loadtest
