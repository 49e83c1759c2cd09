// The int8 product: rows quantised to int8 times panels of int8 weights, summed exactly in int32.
#pragma once

#include <cstdint>

namespace beamline::cpu {

// An int32 sum of deeper products could overflow.
inline constexpr int64_t kMaxInt8Depth = 131072;

struct Int8StripParams {
  // [num_rows, PaddedInt8Depth(depth)], quantised by QuantizeRow
  const int16_t* x = nullptr;
  const float* x_scales = nullptr;  // [num_rows]
  int num_rows = 0;
  int64_t depth = 0;  // in_features
  // [num_panels, padded depth / 2, Int8PanelWidth(), 2]: a column's values k and k + 1 are adjacent
  const int8_t* panels = nullptr;
  const float* scales = nullptr;  // [num_panels * Int8PanelWidth()], of the columns
  int64_t num_panels = 0;
  float* tile = nullptr;  // [num_rows, num_panels * Int8PanelWidth()], rows tile_stride apart
  int64_t tile_stride = 0;
};

// tile[r][c] = (sum over k of x[r][k] * panels[c][k]) * x_scales[r] * scales[c], with the widest
// vectors of this CPU. Does not check its arguments.
void ComputeInt8Strip(const Int8StripParams& params);

// Quantises to int8: scale = the largest magnitude / 127.5, codes[i] = values[i] / scale rounded to
// the nearest even integer and clamped to [-128, 127], as compressed-tensors does it for symmetric
// int8. A row of zeros has scale 0; one with a NaN or an infinity has scale NaN and codes 0, so
// that its products are NaN. Writes zeros up to PaddedInt8Depth(size). Returns the scale.
float QuantizeRow(const float* values, int64_t size, int16_t* codes);

// Columns of a panel.
int Int8PanelWidth();
// Rows that share one read of a panel.
int Int8BlockRows();
constexpr int64_t PaddedInt8Depth(int64_t depth) { return (depth + 1) / 2 * 2; }

}  // namespace beamline::cpu
