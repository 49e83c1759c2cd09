// Copies to a device that also fill in tokens: one launch instead of two at the start of a small
// step. An optional interface of devices (compute_device.h).
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace beamline {

class FilledCopy {
 public:
  virtual ~FilledCopy() = default;

  // The backend's interface; null: not supported.
  static FilledCopy* Of(Backend& backend) { return dynamic_cast<FilledCopy*>(&backend); }

  // CopyToDevice in whole words, then FillTokens in the copied memory. Returns false and does
  // nothing if there are too many bytes for one launch.
  virtual bool CopyAndFill(const void* host, void* device, size_t bytes,
                           const FillTokensParams& fill) = 0;
};

}  // namespace beamline
