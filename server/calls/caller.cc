#include "server/calls/caller.h"

#include <algorithm>

namespace beamline {
namespace {

constexpr char kClientKey[] = "x-client-id";
constexpr size_t kMostClientBytes = 256;  // a longer name is cut

// "ipv4:10.0.0.7:41234" and "ipv6:%5B::1%5D:41234" without the port; "unix:..." as it is.
std::string HostOf(const std::string& peer) {
  return peer.starts_with("ip") ? peer.substr(0, peer.rfind(':')) : peer;
}

}  // namespace

Caller CallerOf(const grpc::CallbackServerContext& context) {
  Caller caller = {context.deadline(), {}};
  const auto& metadata = context.client_metadata();
  if (const auto named = metadata.find(kClientKey); named != metadata.end()) {
    caller.client.assign(named->second.data(), named->second.size());
    caller.client.resize(std::min(caller.client.size(), kMostClientBytes));
  } else {
    caller.client = HostOf(context.peer());
  }
  return caller;
}

}  // namespace beamline
