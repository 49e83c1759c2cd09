// Which attention kernel computes a batch, and why. Pure: no device is asked.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/backend.h"

namespace beamline::cuda {

enum class AttentionKernel : uint8_t {
  kMath,        // attention_math.cu: a warp per query and stretch of keys, any shape
  kRows,        // attention_rows.cu: few query rows a block, 16-byte accesses, split over the keys
  kTensorCore,  // attention_tensor_core.cu: blocks of 64 or 128 query rows, float16 and bfloat16
};

struct AttentionChoice {
  AttentionKernel kernel = AttentionKernel::kMath;
  int rows_per_block = 1;
  int num_splits = 1;  // parts that a sequence's keys are cut into, by blocks of their own
  std::string reason;
};

inline constexpr int kSmallTensorCoreRows = 64;
inline constexpr int kLargeTensorCoreRows = 128;

AttentionChoice PickAttention(const AttentionParams& params, int num_multiprocessors);

}  // namespace beamline::cuda
