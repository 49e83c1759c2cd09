// Copies of few bytes from the host, without a transfer.
#pragma once

#include <cstddef>

#include "kernels/operators.h"

namespace beamline::cuda {

class Device;

inline constexpr size_t kMostCopySmallBytes = 2 << 10;  // of the 4 KiB that parameters may have

// Copies at most kMostCopySmallBytes to the device by a launch, whose parameter they are: a
// transfer costs the stream two to four times as much. The host memory may be reused when it
// returns. The kernel behind it begins when the copy is done.
void CopySmall(Device& device, const void* host, void* to, size_t bytes);

inline constexpr size_t kMostCopySmallFills = 64;

// The same, and fills among what was copied.
// REQUIRES: bytes and token_ids are whole words, and there are at most kMostCopySmallFills.
void CopySmallAndFill(Device& device, const void* host, void* to, size_t bytes,
                      const FillTokensParams& fill);

}  // namespace beamline::cuda
