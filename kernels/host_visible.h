// Memory of the host that a device's operators read in place: of few values, each of which they
// read once or twice, without the time of a copy. What some devices have besides
// (compute_device.h).
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

class HostVisibleMemory {
 public:
  virtual ~HostVisibleMemory() = default;

  // The backend's; null: it has none.
  static HostVisibleMemory* Of(Backend& backend) {
    return dynamic_cast<HostVisibleMemory*>(&backend);
  }

  // Written by the host, at the same address for operators.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostVisible(size_t bytes) = 0;
  // Returns when no operator that was called reads such memory any more.
  virtual void WaitForReaders() = 0;
};

}  // namespace beamline
