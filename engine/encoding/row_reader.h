// Which rows of a step's hidden states an encode request reads: a pooled one of each input, one of
// each token, or those of masks. Each row that is read is pooled over adjacent tokens, so that one
// call of the device serves jobs of several kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/operators.h"

namespace beamline {

// Spans of tokens that are pooled into one row each. The device pools adjacent spans alone: what
// lies between two of them is pooled too, into a row that is not read.
class RowSpans {
 public:
  void Clear() {
    bounds_.clear();
    read_.clear();
  }
  // REQUIRES: begin < end, and `begin` is at or after the end of the last span.
  void Add(int32_t begin, int32_t end) {
    if (bounds_.empty() || bounds_.back() != begin) bounds_.push_back(begin);
    read_.push_back(bounds_.size() - 1);
    bounds_.push_back(end);
  }

  // [number of pooled rows + 1], ascending.
  std::span<const int32_t> bounds() const { return bounds_; }
  // Of the pooled rows, those that are read, ascending.
  std::span<const size_t> read() const { return read_; }

 private:
  std::vector<int32_t> bounds_;
  std::vector<size_t> read_;
};

class RowReader {
 public:
  virtual ~RowReader() = default;

  // How a row is pooled over its tokens, and whether it is made a unit vector on the device.
  struct Mode {
    Pooling pooling = Pooling::kMean;
    bool normalize = false;
    bool operator==(const Mode&) const = default;
  };
  const Mode& mode() const { return mode_; }

  // Adds the spans of input number `input` of the job, which is tokens begin .. end - 1 of the
  // step's.
  virtual void AddRows(size_t input, int32_t begin, int32_t end, RowSpans& spans) const = 0;

 protected:
  explicit RowReader(const Mode& mode) : mode_(mode) {}

 private:
  const Mode mode_;
};

// One row of each input.
class PooledRows final : public RowReader {
 public:
  explicit PooledRows(const Mode& mode) : RowReader(mode) {}
  void AddRows(size_t input, int32_t begin, int32_t end, RowSpans& spans) const override;
};

// One row of each token.
class TokenRows final : public RowReader {
 public:
  explicit TokenRows(bool normalize) : RowReader({Pooling::kMean, normalize}) {}
  void AddRows(size_t input, int32_t begin, int32_t end, RowSpans& spans) const override;
};

// One row of each mask.
class MaskedRows final : public RowReader {
 public:
  // Of each input the positions of its masks, ascending.
  explicit MaskedRows(std::vector<std::vector<int32_t>> positions)
      : RowReader({}), positions_(std::move(positions)) {}
  void AddRows(size_t input, int32_t begin, int32_t end, RowSpans& spans) const override;

 private:
  const std::vector<std::vector<int32_t>> positions_;
};

}  // namespace beamline
