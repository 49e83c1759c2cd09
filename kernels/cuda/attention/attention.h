// Attention with the kernel that attention_picker.h chose. It is launched on the device's stream.
// The device records faults.
#pragma once

#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

// Limit of head_dim.
inline constexpr int kMostHeadDim = 256;
void Compute(Device& device, const AttentionParams& params, const AttentionChoice& choice);

}  // namespace beamline::cuda
