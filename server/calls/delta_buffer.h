// What a stream has still to write. While a write is in flight, what arrives is merged by sequence:
// a slow reader gets fewer, larger messages and loses nothing, and what waits for it is never more
// than its own request's answer. Messages stay far below the 4 MiB that clients accept by default.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "engine/api/request.h"

namespace beamline {

// Not thread safe.
class DeltaBuffer {
 public:
  // About the most bytes of a message, which are at most half of what can be sent. A single delta
  // may be larger.
  static constexpr size_t kMaxMessageBytes = 256 << 10;
  explicit DeltaBuffer(size_t max_send_bytes = 2 * kMaxMessageBytes)
      : max_message_bytes_(std::min(kMaxMessageBytes, max_send_bytes / 2)) {}

  void Add(GenerateDelta delta);
  bool empty() const { return waiting_.empty(); }
  // The next message: at most one delta per sequence, in the order of their arrival.
  std::vector<GenerateDelta> Take();

 private:
  const size_t max_message_bytes_;
  std::deque<GenerateDelta> waiting_;  // merged up to max_message_bytes_ each
};

}  // namespace beamline
