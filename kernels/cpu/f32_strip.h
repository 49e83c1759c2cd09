// One call of the float32 kernel: a few rows times a strip of panels.
#pragma once

#include <cstdint>

namespace beamline::cpu {

struct F32StripParams {
  const float* x = nullptr;  // [num_rows, in_features], rows x_stride apart
  int64_t x_stride = 0;
  int num_rows = 0;
  int64_t in_features = 0;
  const float* panels = nullptr;  // [num_panels, in_features, panel width]
  int64_t num_panels = 0;
  float* tile = nullptr;  // [num_rows, num_panels * panel width], rows tile_stride apart
  int64_t tile_stride = 0;
};

}  // namespace beamline::cpu
