#include "engine/checkpoint/formats/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/in_parts.h"
#include "kernels/float16.h"

namespace beamline {
namespace {

constexpr int64_t kPartElements = int64_t{1} << 18;

// The scale and the zero of each column of a row.
struct RowTerms {
  std::vector<float> scales, zeros;
};

void SetTerms(const QuantizedMatrix& matrix, int64_t row, RowTerms& terms) {
  const int64_t first = row / matrix.rows_per_block * matrix.num_groups();
  for (int64_t i = 0; i < matrix.in; ++i) {
    const int64_t group =
        matrix.group_of_column.empty() ? i / matrix.group_size : matrix.group_of_column[i];
    terms.scales[i] = matrix.scales[first + group];
    terms.zeros[i] = matrix.zeros.empty() ? matrix.zero : matrix.zeros[first + group];
  }
}

template <typename Store>
void DequantizeRows(const QuantizedMatrix& matrix, int64_t begin, int64_t end, const Store& store) {
  RowTerms terms = {std::vector<float>(matrix.in), std::vector<float>(matrix.in)};
  for (int64_t row = begin; row < end; ++row) {
    if (row == begin || row % matrix.rows_per_block == 0) SetTerms(matrix, row, terms);
    const uint8_t* const codes = matrix.codes.data() + row * matrix.in;
    for (int64_t i = 0; i < matrix.in; ++i) {
      const float value = matrix.table.empty() ? static_cast<float>(codes[i]) - terms.zeros[i]
                                               : matrix.table[codes[i]];
      store(row * matrix.in + i, value * terms.scales[i] * matrix.factor);
    }
  }
}

}  // namespace

std::vector<std::byte> Dequantize(const QuantizedMatrix& matrix) {
  std::vector<std::byte> bytes(static_cast<size_t>(matrix.out * matrix.in) * SizeOf(matrix.dtype));
  const size_t rows_a_part =
      static_cast<size_t>(std::max<int64_t>(1, kPartElements / std::max<int64_t>(1, matrix.in)));
  InParts(static_cast<size_t>(matrix.out), rows_a_part, kFormatThreads,
          [&](size_t begin, size_t end) {
            const auto rows = [&](const auto& store) {
              DequantizeRows(matrix, static_cast<int64_t>(begin), static_cast<int64_t>(end), store);
            };
            if (matrix.dtype == DType::kFloat32) {
              auto* const values = reinterpret_cast<float*>(bytes.data());
              rows([values](int64_t at, float value) { values[at] = value; });
            } else {
              auto* const values = reinterpret_cast<uint16_t*>(bytes.data());
              if (matrix.dtype == DType::kBFloat16) {
                rows([values](int64_t at, float value) { values[at] = ToBFloat16(value); });
              } else {
                rows([values](int64_t at, float value) { values[at] = ToFloat16(value); });
              }
            }
          });
  return bytes;
}

std::vector<float> E4m3Values() {
  std::vector<float> values(256);
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15, mantissa = code & 7;
    float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    if ((code & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
    values[code] = code & 0x80 ? -value : value;
  }
  return values;
}

}  // namespace beamline
