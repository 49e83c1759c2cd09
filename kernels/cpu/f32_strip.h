// The float32 kernel: a few rows times a strip of panels, which may be stored in 16 or 8 bits.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace beamline::cpu {

// A deeper product is computed in pieces of kPieceDepth.
inline constexpr int64_t kMaxWholeDepth = 1024;
inline constexpr int64_t kPieceDepth = 512;

struct F32StripParams {
  const float* x = nullptr;  // [num_rows, depth], rows x_stride apart
  int64_t x_stride = 0;
  int num_rows = 0;
  int64_t depth = 0;  // of in_features
  // [num_panels, depth, panel width] of type `weights`, panels panel_stride elements apart
  const void* panels = nullptr;
  DType weights = DType::kFloat32;  // or a 16-bit type or int8, widened on load
  int64_t panel_stride = 0;
  int64_t num_panels = 0;
  float* tile = nullptr;  // [num_rows, num_panels * panel width], rows tile_stride apart
  int64_t tile_stride = 0;
  bool accumulate = false;  // add to the tile's sums
};

// tile = x * panels, with the widest vectors of this CPU. Does not check its arguments.
void ComputeF32Strip(const F32StripParams& params);
// Columns of a panel, and rows that share one read of it.
int F32PanelWidth();
int F32BlockRows();

}  // namespace beamline::cpu
