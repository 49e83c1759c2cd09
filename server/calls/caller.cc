#include "server/calls/caller.h"

#include "grpcpp/support/time.h"

namespace beamline {
namespace {

constexpr char kClientKey[] = "x-client-id";
constexpr size_t kMostClientBytes = 256;  // a longer name is cut
constexpr int64_t kFarthestHours = int64_t{100} * 365 * 24;

// "ipv4:10.0.0.7:41234" and "ipv6:%5B::1%5D:41234" without the port; "unix:..." as it is.
std::string HostOf(const std::string& peer) {
  return peer.starts_with("ip") ? peer.substr(0, peer.rfind(':')) : peer;
}

}  // namespace

std::chrono::system_clock::time_point DeadlineOf(gpr_timespec deadline) {
  const gpr_timespec farthest = gpr_time_from_hours(kFarthestHours, GPR_TIMESPAN);
  deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_REALTIME);
  if (gpr_time_cmp(deadline, gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), farthest)) > 0) {
    return std::chrono::system_clock::time_point::max();
  }
  return grpc::Timespec2Timepoint(deadline);
}

Caller MakeCaller(std::chrono::system_clock::time_point deadline, const std::string& identity,
                  std::optional<std::string_view> named, const std::string& host) {
  Caller caller{.deadline = deadline, .client = identity, .is_identity = !identity.empty()};
  if (!caller.is_identity) {
    caller.client = named.has_value() ? std::string(named->substr(0, kMostClientBytes)) : host;
  }
  return caller;
}

Caller CallerOf(const grpc::CallbackServerContext& context, const std::string& identity) {
  std::optional<std::string_view> name;
  const auto& metadata = context.client_metadata();
  if (const auto named = metadata.find(kClientKey); named != metadata.end()) {
    name = std::string_view(named->second.data(), named->second.size());
  }
  const std::string peer = context.peer();
  Caller caller = MakeCaller(DeadlineOf(context.raw_deadline()), identity, name, HostOf(peer));
  caller.peer = peer;
  if (const auto parent = metadata.find(kTraceParentKey); parent != metadata.end()) {
    caller.trace =
        ParseTraceParent({parent->second.data(), parent->second.size()}).value_or(TraceContext());
  }
  return caller;
}

}  // namespace beamline
