// What a stream has still to write. While a write is in flight, everything that arrives is merged,
// one entry per sequence: a slow reader gets fewer, larger messages and loses nothing, and what
// waits for it is never more than its own request's answer.
#pragma once

#include <utility>
#include <vector>

#include "engine/request.h"

namespace beamline {

// Not thread safe.
class DeltaBuffer {
 public:
  void Add(GenerateDelta delta);
  bool empty() const { return deltas_.empty(); }
  // At most one per sequence; the buffer is empty then.
  std::vector<GenerateDelta> Take() { return std::exchange(deltas_, {}); }

 private:
  std::vector<GenerateDelta> deltas_;
};

}  // namespace beamline
