// What a client of HTTP/2 may ask of the server without getting anything answered: gRPC 1.51 bounds
// neither how often a client takes a call back, each of which costs it some 13 KiB and 50 us, nor
// how long a block of headers is, which it reads anew with each piece of it (CVE-2023-44487,
// CVE-2023-33953).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "server/guard/connection_flood.h"

namespace beamline {

// Follows the frames that a client sends (RFC 9113, 4.1), by their heads alone. One connection; not
// thread safe.
class FrameWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Of a block of headers, as it is sent.
  static constexpr size_t kMostHeaderBytes = 64 << 10;

  FrameWatch() : FrameWatch(std::make_shared<ConnectionFlood>()) {}
  // `flood`, not null, counts what may be too much.
  explicit FrameWatch(std::shared_ptr<ConnectionFlood> flood) : flood_(std::move(flood)) {}

  // The connection's next bytes, from its first one on. False from the moment on at which the
  // client has sent more of something than it may: what `fault` says.
  bool Follow(std::string_view bytes, TimePoint now);
  std::string_view fault() const { return fault_; }

 private:
  void OnFrame(TimePoint now);
  void CountReset(TimePoint now);
  void CountIdleFrame(TimePoint now);
  // Whether the stream has begun just now. Numbers of streams only grow.
  bool IsYoung(uint32_t stream) const { return stream > last_before_; }

  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kHeadBytes = 9;
  static constexpr std::chrono::seconds kYoung{1};

  size_t to_skip_ = kPrefaceBytes;
  std::array<unsigned char, kHeadBytes> head_{};
  size_t head_size_ = 0;
  size_t header_bytes_ = 0;    // of the block that has begun
  uint32_t last_ = 0;          // the last stream that began
  uint32_t last_at_mark_ = 0;  // at mark_
  uint32_t last_before_ = 0;   // at least kYoung ago
  TimePoint mark_;
  std::string_view fault_;
  std::shared_ptr<ConnectionFlood> flood_;
};

}  // namespace beamline
