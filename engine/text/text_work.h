// What the tokens of one text may cost, counted in units of some nanoseconds: a byte that a pattern
// reads is one. A tokenizer's files may ask for more than any text is worth (patterns that read the
// rest of the text at each of its bytes, thousands of normalizers in a row).
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace beamline::text {

// Of one thread.
class TextWork {
 public:
  // Far beyond what published tokenizers take, which is some 50 a byte.
  static constexpr size_t kUnitsForAll = size_t{32} << 20;
  static constexpr size_t kUnitsPerByte = 256;
  // Of a pass that writes the text anew, with where it comes from.
  static constexpr size_t kUnitsPerRewrittenByte = 8;

  explicit TextWork(size_t text_bytes)
      : text_bytes_(text_bytes), most_(kUnitsForAll + kUnitsPerByte * text_bytes) {}

  // False when that is too much, or when a StopCheck of this thread says so (base/stop_check.h),
  // which is asked now and then; then for good.
  bool Spend(size_t units) {
    spent_ += units;
    return spent_ < next_look_ || Look();
  }
  // Why Spend was false: INVALID_ARGUMENT, or what the StopCheck said. OK before.
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
