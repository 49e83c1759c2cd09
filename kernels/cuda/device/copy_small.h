// Small copies from the host, without a transfer.
#pragma once

#include <cstddef>

#include "kernels/operators.h"

namespace beamline::cuda {

class Device;

inline constexpr size_t kMostCopySmallBytes = 2 << 10;  // of the 4 KiB limit of parameters

// Copies at most kMostCopySmallBytes to the device, as the parameter of a launch. A transfer costs
// the stream two to four times as much. The host memory may be reused on return. The next kernel
// starts when the copy is done.
void CopySmall(Device& device, const void* host, void* to, size_t bytes);

inline constexpr size_t kMostCopySmallFills = 64;

// The same, and fills among the copied values. REQUIRES: `bytes` and the address token_ids are
// multiples of 4, and there are at most kMostCopySmallFills fills.
void CopySmallAndFill(Device& device, const void* host, void* to, size_t bytes,
                      const FillTokensParams& fill);

}  // namespace beamline::cuda
