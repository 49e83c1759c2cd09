// Whether two results on the device agree.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// x is close to r if |x - r| < absolute + relative * |r|. A NaN is never close.
struct Closeness {
  float absolute, relative;
};

// Sets *differs, an int on the device, to 1 if an element of x [rows, columns] is not close to that
// of `reference`, which has the same shape and type. Otherwise *differs is unchanged. A fault
// becomes the device's. REQUIRES: absolute > 0.
void Compare(Device& device, const Tensor& x, const Tensor& reference, Closeness closeness,
             int* differs);

}  // namespace beamline::cuda
