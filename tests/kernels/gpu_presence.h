// Whether this machine has a GPU, asked of the NVIDIA driver itself and not of the backend under
// test: a backend that does not open is a fault where there is a GPU, and expected where there is
// none.
#pragma once

#include "absl/status/statusor.h"

namespace beamline {

// The GPUs that the driver shows; 0 without a driver. An error when a driver is there and does not
// answer: nobody may take that for a machine without a GPU.
absl::StatusOr<int> CountGpusOfDriver();

}  // namespace beamline
