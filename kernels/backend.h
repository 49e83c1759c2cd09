// A device with its operators, on which an engine computes. kernels/cpu and kernels/cuda implement
// it.
#pragma once

#include "kernels/compute_device.h"
#include "kernels/operators.h"

namespace beamline {

class Backend : public ComputeDevice, public Operators {
 public:
  explicit Backend(const CheckOptions& options = {}) : Operators(options) {}
};

}  // namespace beamline
