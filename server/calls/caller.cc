#include "server/calls/caller.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace beamline {
namespace {

constexpr char kClientKey[] = "x-client-id";
constexpr size_t kMostClientBytes = 256;  // longer names are cut
constexpr int64_t kFarthestHours = int64_t{100} * 365 * 24;

// "ipv4:10.0.0.7:41234" and "ipv6:%5B::1%5D:41234" without the port; "unix:..." as it is.
std::string HostOf(const std::string& peer) {
  return peer.starts_with("ip") ? peer.substr(0, peer.rfind(':')) : peer;
}

}  // namespace

std::optional<Clock::time_point> DeadlineOf(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return std::nullopt;
  const gpr_timespec left = gpr_time_sub(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC),
                                         gpr_now(GPR_CLOCK_MONOTONIC));
  constexpr int64_t kFarthestSeconds = kFarthestHours * 3600;
  if (left.tv_sec > kFarthestSeconds) return std::nullopt;
  const std::chrono::seconds seconds(std::max(left.tv_sec, -kFarthestSeconds));
  return Clock::now() + seconds + std::chrono::nanoseconds(left.tv_nsec);
}

Caller MakeCaller(std::optional<Clock::time_point> deadline, const std::string& identity,
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
  std::string peer = context.peer();
  // A named caller's host is not needed.
  const std::string host = identity.empty() && !name.has_value() ? HostOf(peer) : std::string();
  Caller caller = MakeCaller(DeadlineOf(context.raw_deadline()), identity, name, host);
  caller.peer = std::move(peer);
  caller.context = &context;
  if (const auto parent = metadata.find(kTraceParentKey); parent != metadata.end()) {
    caller.trace =
        ParseTraceParent({parent->second.data(), parent->second.size()}).value_or(TraceContext());
  }
  return caller;
}

}  // namespace beamline
