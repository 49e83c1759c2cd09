// Where a model's weights lie: side by side on pages of 2 MiB, as far as the system has them, so
// that a step that reads all of them seldom waits for the processor to look up where they are
// (docs/decisions/0061-huge-pages.md).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

namespace beamline::cpu {

// Bytes that end with their last owner.
using SharedBytes = std::shared_ptr<std::byte[]>;

// Hands out pieces that are written at once and stay for as long as a model. Of memory that nobody
// writes nothing is taken from the system, but that huge pages come whole: at most 2 MiB more for
// each 24 MiB, and for each model. Any thread may ask.
class WeightPages {
 public:
  // Zeros, aligned to a cache line. A piece's whole pages go back to the system when it ends, and
  // their addresses when all pieces of a mapping have. Throws std::bad_alloc. REQUIRES: bytes > 0.
  SharedBytes Allocate(size_t bytes);

 private:
  std::mutex mutex_;
  SharedBytes chunk_;  // guarded by mutex_
  size_t used_ = 0;    // bytes of the chunk, guarded by mutex_
};

}  // namespace beamline::cpu
