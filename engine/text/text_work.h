// A work budget for tokenizing one text, in units of some nanoseconds: a byte read by a pattern
// costs one unit. A tokenizer's files may require unreasonable work (patterns that read the rest of
// the text at each byte, thousands of normalizers in a row).
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace beamline::text {

// Used by one thread.
class TextWork {
 public:
  // Far above the need of published tokenizers, about 50 units per byte.
  static constexpr size_t kUnitsForAll = size_t{32} << 20;
  static constexpr size_t kUnitsPerByte = 256;
  // For a pass that rewrites the text with its origins.
  static constexpr size_t kUnitsPerRewrittenByte = 8;

  explicit TextWork(size_t text_bytes)
      : text_bytes_(text_bytes), most_(kUnitsForAll + kUnitsPerByte * text_bytes) {}

  // False if the budget is exceeded, or if a StopCheck of this thread says to stop
  // (base/stop_check.h), which is checked from time to time; false from then on.
  bool Spend(size_t units) {
    spent_ += units;
    return spent_ < next_look_ || Look();
  }
  // The reason why Spend returned false: INVALID_ARGUMENT, or the StopCheck's status. OK before.
  const absl::Status& status() const { return status_; }
  size_t spent() const { return spent_; }

 private:
  bool Look();

  const size_t text_bytes_;
  const size_t most_;
  size_t spent_ = 0;
  size_t next_look_ = size_t{1} << 18;
  absl::Status status_;
};

}  // namespace beamline::text
