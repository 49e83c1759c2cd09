// A matrix of which each value is a code of 8 bits or fewer times a scale that several values
// share: what every weight format unpacks to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "kernels/tensor.h"

namespace beamline {

// Threads that unpack or dequantise a large matrix.
inline constexpr int kFormatThreads = 8;

// value[o, i] = (codes[o, i] - zero) * scale * factor, or table[codes[o, i]] * scale * factor with
// a table. Products are float32, in this order, and rounded once to `dtype`. Scale and zero are
// those of row block o / rows_per_block and of the group of column i.
struct QuantizedMatrix {
  int64_t out = 0, in = 0;
  std::vector<uint8_t> codes;  // [out, in]
  std::vector<float> table;    // the value of each code; empty: the code itself
  int64_t rows_per_block = 1;
  int64_t group_size = 1;  // consecutive columns, the last group may be smaller
  // [in], each below num_groups(); empty: consecutive columns.
  std::vector<int32_t> group_of_column;
  std::vector<float> scales;   // [ceil(out / rows_per_block), num_groups()]
  std::vector<uint8_t> zeros;  // as scales; empty: `zero`
  uint8_t zero = 0;
  float factor = 1.0f;
  DType dtype = DType::kFloat32;  // float32, float16 or bfloat16

  int64_t num_groups() const { return CeilDiv(in, group_size); }
};

// The values, [out, in] in `matrix.dtype`; large matrices on several threads. REQUIRES: the sizes
// of codes, scales, zeros and groups, and the codes themselves, are as documented.
std::vector<std::byte> Dequantize(const QuantizedMatrix& matrix);

// The 256 values of float8 e4m3fn: no infinities, 0x7f and 0xff are NaN.
std::vector<float> E4m3Values();

}  // namespace beamline
