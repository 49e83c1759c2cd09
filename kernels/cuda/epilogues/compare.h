// Whether two results on the device agree.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Sets *differs, an int on the device, where an element of x [rows, columns] is further from
// `reference`'s, of the same shape and type, than absolute + relative * |reference|'s; a NaN on
// either side always is. Leaves it alone otherwise. REQUIRES: absolute > 0.
struct Closeness {
  float absolute, relative;
};
void Compare(Device& device, const Tensor& x, const Tensor& reference, Closeness closeness,
             int* differs);

}  // namespace beamline::cuda
