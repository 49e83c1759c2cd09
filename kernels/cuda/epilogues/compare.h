// Whether two results on the device agree.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// x is close to r where |x - r| < absolute + relative * |r|; a NaN is close to nothing.
struct Closeness {
  float absolute, relative;
};

// Sets *differs, an int on the device, to 1 where an element of x [rows, columns] is not close to
// `reference`'s, which has the same shape and type. Leaves it alone otherwise. A fault is the
// device's. REQUIRES: absolute > 0.
void Compare(Device& device, const Tensor& x, const Tensor& reference, Closeness closeness,
             int* differs);

}  // namespace beamline::cuda
