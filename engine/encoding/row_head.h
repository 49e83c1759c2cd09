// The part of a model after its encoder: it turns rows that were read of the hidden states into
// others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline {

// Of a replica: one thread.
class RowHead {
 public:
  virtual ~RowHead() = default;
  // [num_rows, the width that it reads]: [num_rows, width()].
  virtual absl::StatusOr<std::vector<float>> Compute(std::span<const float> rows) = 0;
  virtual int32_t width() const = 0;
};

}  // namespace beamline
