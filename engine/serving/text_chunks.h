// Which thread tokenizes which inputs of a request: adjacent ones, of some milliseconds' text at
// most, taken in their order.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

class TextChunks {
 public:
  struct Chunk {
    size_t begin = 0, end = 0;  // of the inputs
  };
  // Of text in a chunk, unless one input has more: about a millisecond's, beside which to wake a
  // thread costs little, and which other requests can wait for.
  static constexpr size_t kBytes = 8192;

  // input_bytes(i): of the text of each input, of which there is at least one.
  template <typename InputBytes>
  TextChunks(size_t num_inputs, InputBytes input_bytes) {
    size_t bytes = 0;
    for (size_t i = 0; i < num_inputs; ++i) {
      const size_t of_input = input_bytes(i);
      if (chunks_.empty() || bytes + of_input > kBytes) {
        chunks_.push_back({i, i});
        bytes = 0;
      }
      bytes += of_input;
      chunks_.back().end = i + 1;
    }
  }

  size_t size() const { return chunks_.size(); }

  // The next chunk, in their order; nullopt: there is none, or an input has failed. Any thread.
  std::optional<Chunk> Take() {
    std::lock_guard lock(mutex_);
    if (next_ == chunks_.size() || !status_.ok()) return std::nullopt;
    ++num_taken_;
    return chunks_[next_++];
  }
  // A chunk that was taken is done: `status` is that of its first input that failed, which is
  // `input`. True once, when nothing is left to do. Any thread.
  bool Finish(size_t input, const absl::Status& status) {
    std::lock_guard lock(mutex_);
    --num_taken_;
    if (!status.ok() && (status_.ok() || input < failed_)) {
      status_ = status;
      failed_ = input;
    }
    return num_taken_ == 0 && (next_ == chunks_.size() || !status_.ok());
  }
  // Of the first input that failed: all before it were taken before it. REQUIRES: Finish has
  // returned true.
  const absl::Status& status() const { return status_; }

 private:
  std::vector<Chunk> chunks_;
  std::mutex mutex_;  // guards all below
  size_t next_ = 0;
  size_t num_taken_ = 0;  // and not finished
  size_t failed_ = 0;
  absl::Status status_;
};

}  // namespace beamline
