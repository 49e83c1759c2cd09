// Transposes rows to columns, for files compiled once per target (simd-inl.h).
#if defined(BEAMLINE_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEAMLINE_KERNELS_CPU_TRANSPOSE_INL_H_
#undef BEAMLINE_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define BEAMLINE_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Loads four values of each of Lanes(d) / 4 rows, every fourth row: block b holds rows[4 * b][0 ..
// 3].
template <class D>
HWY_INLINE hn::Vec<D> LoadFours(D d, const float* const* rows, int column) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, rows[0] + column);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadFours(half, rows + hn::MaxLanes(half), column),
                       LoadFours(half, rows, column));
  }
}
#endif

// to[c * stride + r] = rows[r][c] for r < num_rows and c < num_columns. num_rows is a multiple of
// Lanes(d).
template <class D>
HWY_INLINE void TransposeRows(D d, const float* const* rows, int num_rows, int num_columns,
                              int64_t stride, float* to) {
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int r = 0; r < num_rows; r += lanes) {
    float* column = to + r;
    int c = 0;
#if HWY_TARGET != HWY_SCALAR
    // 4 x 4 transpositions, one in each 128-bit block.
    for (; c + 4 <= num_columns; c += 4, column += 4 * stride) {
      const auto v0 = LoadFours(d, rows + r, c);
      const auto v1 = LoadFours(d, rows + r + 1, c);
      const auto v2 = LoadFours(d, rows + r + 2, c);
      const auto v3 = LoadFours(d, rows + r + 3, c);
      const auto low02 = hn::InterleaveLower(d, v0, v2);
      const auto low13 = hn::InterleaveLower(d, v1, v3);
      const auto high02 = hn::InterleaveUpper(d, v0, v2);
      const auto high13 = hn::InterleaveUpper(d, v1, v3);
      hn::StoreU(hn::InterleaveLower(d, low02, low13), d, column);
      hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, column + stride);
      hn::StoreU(hn::InterleaveLower(d, high02, high13), d, column + 2 * stride);
      hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, column + 3 * stride);
    }
#endif
    for (; c < num_columns; ++c, column += stride) {
      for (int i = 0; i < lanes; ++i) column[i] = rows[r + i][c];
    }
  }
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BEAMLINE_KERNELS_CPU_TRANSPOSE_INL_H_
