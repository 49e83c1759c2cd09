// What a server's acceptor counts, for /metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace beamline {

// Why the server closed a connection: all but kFlood before it could carry a call.
enum class Refusal : uint8_t {
  kLimit,      // as many as may be are open
  kPeerLimit,  // as many as may be of one address are open
  kTimeout,    // said nothing, or not enough, for too long
  kDisplaced,  // had said nothing yet when its place was needed
  kProtocol,   // does not begin as the protocol does
  kFlood,      // sent more of something than a client needs (frame_watch.h)
};
// Label values of `reason`.
inline constexpr std::array<std::string_view, 6> kRefusalNames = {
    "limit", "peer_limit", "timeout", "displaced", "protocol", "flood"};

// Written by the acceptor's thread, read by any.
struct ConnectionStats {
  std::atomic<uint64_t> accepted{0};  // handed to gRPC
  std::array<std::atomic<uint64_t>, kRefusalNames.size()> refused{};
  std::atomic<uint64_t> paced{0};  // waited, as their address had opened many (peer_floods.h)
  std::atomic<uint64_t> accept_errors{0};
  std::atomic<int64_t> silent{0};  // now: accepted by the kernel, not yet handed to gRPC
  std::atomic<int64_t> open{0};    // now: handed to gRPC
  std::atomic<bool> accepting{true};

  void Count(Refusal reason) { ++refused[static_cast<size_t>(reason)]; }
};

}  // namespace beamline
