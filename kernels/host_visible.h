// Host memory that a device's operators read in place. It is for few values, each read once or
// twice, to save the time of a copy. An optional interface of devices (compute_device.h).
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

class HostVisibleMemory {
 public:
  virtual ~HostVisibleMemory() = default;

  // The backend's interface; null: not supported.
  static HostVisibleMemory* Of(Backend& backend) {
    return dynamic_cast<HostVisibleMemory*>(&backend);
  }

  // The host writes it. Operators read it at the same address.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostVisible(size_t bytes) = 0;
  // Waits until no operator called so far reads such memory.
  virtual void WaitForReaders() = 0;
};

}  // namespace beamline
