// Copies to a device that fill in tokens on the way: what a step of few rows begins with, by one
// launch instead of two. What some devices have besides (compute_device.h).
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace beamline {

class FilledCopy {
 public:
  virtual ~FilledCopy() = default;

  // The backend's; null: it has none.
  static FilledCopy* Of(Backend& backend) { return dynamic_cast<FilledCopy*>(&backend); }

  // CopyToDevice of whole words, then FillTokens among what was copied. False, and nothing is done,
  // where they are too many to travel together.
  virtual bool CopyAndFill(const void* host, void* device, size_t bytes,
                           const FillTokensParams& fill) = 0;
};

}  // namespace beamline
