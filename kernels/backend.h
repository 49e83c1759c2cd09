// A device with its operators: what an engine computes on. kernels/cpu and kernels/cuda are one
// each.
#pragma once

#include "kernels/compute_device.h"
#include "kernels/operators.h"

namespace beamline {

class Backend : public ComputeDevice, public Operators {
 public:
  explicit Backend(const CheckOptions& options = {}) : Operators(options) {}
};

}  // namespace beamline
