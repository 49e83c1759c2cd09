// Deltas that a stream has still to write. While a write is in flight, new deltas are merged by
// sequence. So a slow reader gets fewer, larger messages and loses nothing, and the buffer is
// bounded by the request's own answer. Messages stay far below the 4 MiB that clients accept by
// default.
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
  // Approximate limit of a message's bytes, at most half of the send limit. A single delta may be
  // larger.
  static constexpr size_t kMaxMessageBytes = 256 << 10;
  explicit DeltaBuffer(size_t max_send_bytes = 2 * kMaxMessageBytes)
      : max_message_bytes_(std::min(kMaxMessageBytes, max_send_bytes / 2)) {}

  void Add(GenerateDelta delta);
  bool empty() const { return waiting_.empty(); }
  // The next message: at most one delta per sequence, in order of arrival.
  std::vector<GenerateDelta> Take();

 private:
  const size_t max_message_bytes_;
  std::deque<GenerateDelta> waiting_;  // merged up to max_message_bytes_ each
};

}  // namespace beamline
