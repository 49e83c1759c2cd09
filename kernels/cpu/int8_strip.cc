// Inner loops of the int8 product. The values are widened to int16, whose products are added in
// pairs (vpmaddwd): exact for all codes, where products of bytes (vpmaddubsw) would saturate.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/int8_strip.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/int8_strip.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

using I32 = hn::RebindToSigned<F32>;
using VI32 = hn::Vec<I32>;
inline constexpr I32 kI32;

// Pairs of int16, of values k and k + 1 of a column: a pair for each lane of int32.
#if HWY_TARGET == HWY_SCALAR
struct Pairs {
  int32_t first;
  int32_t second;
};
HWY_INLINE Pairs LoadPairs(const int8_t* from) { return {from[0], from[1]}; }
HWY_INLINE Pairs BroadcastPair(const int16_t* from) { return {from[0], from[1]}; }
HWY_INLINE VI32 AddProducts(Pairs a, Pairs b, VI32 sums) {
  return hn::Add(sums, hn::Set(kI32, a.first * b.first + a.second * b.second));
}
#else
using I16 = hn::Repartition<int16_t, I32>;
using Pairs = hn::Vec<I16>;
inline constexpr I16 kI16;

HWY_INLINE Pairs LoadPairs(const int8_t* from) {
  return hn::PromoteTo(kI16, hn::LoadU(hn::Rebind<int8_t, I16>(), from));
}
HWY_INLINE Pairs BroadcastPair(const int16_t* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return hn::BitCast(kI16, hn::Set(kI32, pair));
}
// Adds the two products of each pair.
HWY_INLINE VI32 AddProducts(Pairs a, Pairs b, VI32 sums) {
#if HWY_ARCH_X86
  VI32 unused = sums;
  return hn::ReorderWidenMulAccumulate(kI32, a, b, sums, unused);
#else
  const auto first = [](Pairs v) HWY_ATTR {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(kI32, v)));
  };
  const auto second = [](Pairs v) HWY_ATTR { return hn::ShiftRight<16>(hn::BitCast(kI32, v)); };
  return hn::Add(hn::Add(sums, hn::Mul(first(a), first(b))), hn::Mul(second(a), second(b)));
#endif
}
#endif

#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
constexpr int kAccumulators = 24;
constexpr int kBlockRows = 8;
#else
constexpr int kAccumulators = 12;
constexpr int kBlockRows = 6;
#endif
constexpr int kVectorsPerPanel = 2;

int Int8Columns() { return kVectorsPerPanel * static_cast<int>(NumLanes()); }
int Int8Rows() { return kBlockRows; }

// A register block of kRows x kPanels.
template <int kRows, int kPanels>
HWY_NOINLINE void ComputeBlock(const Int8StripParams& p, int row, int64_t panel) {
  constexpr int kVectors = kPanels * kVectorsPerPanel;
  const size_t lanes = NumLanes();
  const int64_t depth = PaddedInt8Depth(p.depth);
  const int64_t panel_width = kVectorsPerPanel * static_cast<int64_t>(lanes);
  const int64_t panel_stride = panel_width * depth;
  const int8_t* weight = p.panels + panel * panel_stride;
  const int16_t* x = p.x + row * depth;
  VI32 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::Zero(kI32);
  }
  for (int64_t k = 0; k < depth; k += 2) {
    Pairs w[kVectors];
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      w[c] = LoadPairs(weight + (c / kVectorsPerPanel) * panel_stride +
                       (c % kVectorsPerPanel) * 2 * lanes);
    }
    weight += 2 * panel_width;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Pairs pair = BroadcastPair(x + r * depth + k);
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) sums[r][c] = AddProducts(pair, w[c], sums[r][c]);
    }
  }
  const float* scales = p.scales + panel * panel_width;
  float* tile = p.tile + row * p.tile_stride + panel * panel_width;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const VF x_scale = hn::Set(kF32, p.x_scales[row + r]);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      const VF scale = hn::Mul(x_scale, hn::LoadU(kF32, scales + c * lanes));
      hn::StoreU(hn::Mul(hn::ConvertTo(kF32, sums[r][c]), scale), kF32,
                 tile + r * p.tile_stride + c * lanes);
    }
  }
}

// Of all rows, one panel after the other, so that a panel stays in the cache for all row blocks.
template <int kRows>
void ComputeRows(const Int8StripParams& p, int row, int64_t panel, int64_t end) {
  constexpr int kPanels = std::min(4, std::max(1, kAccumulators / (kRows * kVectorsPerPanel)));
  for (; panel + kPanels <= end; panel += kPanels) ComputeBlock<kRows, kPanels>(p, row, panel);
  for (; panel < end; ++panel) ComputeBlock<kRows, 1>(p, row, panel);
}

template <int... kRows>
void DispatchRows(const Int8StripParams& p, int row, int num_rows, int64_t panel, int64_t end,
                  std::integer_sequence<int, kRows...>) {
  (void)((num_rows == kRows + 1 && (ComputeRows<kRows + 1>(p, row, panel, end), true)) || ...);
}

void ComputeInt8Strip(const Int8StripParams& p) {
  const int64_t step = p.num_rows > kBlockRows ? 1 : p.num_panels;
  for (int64_t panel = 0; panel < p.num_panels; panel += step) {
    for (int row = 0; row < p.num_rows; row += kBlockRows) {
      DispatchRows(p, row, std::min(kBlockRows, p.num_rows - row), panel, panel + step,
                   std::make_integer_sequence<int, kBlockRows>());
    }
  }
}

float QuantizeRow(const float* values, int64_t size, int16_t* codes) {
  std::fill_n(codes, PaddedInt8Depth(size), int16_t{0});
  VF largest = hn::Zero(kF32), probe = hn::Zero(kF32);
  ForEachVector(static_cast<size_t>(size), [&](size_t i, auto load, auto) HWY_ATTR {
    const VF v = load(values + i);
    largest = hn::Max(hn::Abs(v), largest);
    probe = hn::MulAdd(v, hn::Zero(kF32), probe);  // NaN from the first NaN or infinity on
  });
  if (Sum(probe) != 0.0f) return std::numeric_limits<float>::quiet_NaN();
  const float scale = Max(largest) / 127.5f;
  if (scale == 0.0f) return 0.0f;
  const VF divisor = hn::Set(kF32, scale);
  const hn::Rebind<int16_t, I32> i16;
  const auto quantize = [&](VF v) HWY_ATTR {
    const VI32 nearest = hn::NearestInt(hn::Div(v, divisor));
    return hn::Min(hn::Max(nearest, hn::Set(kI32, -128)), hn::Set(kI32, 127));
  };
  const auto lanes = static_cast<int64_t>(NumLanes());
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    hn::StoreU(hn::DemoteTo(i16, quantize(hn::LoadU(kF32, values + i))), i16, codes + i);
  }
  if (i < size) {
    HWY_ALIGN int16_t rest[hn::MaxLanes(I32())];
    const size_t count = static_cast<size_t>(size - i);
    hn::Store(hn::DemoteTo(i16, quantize(LoadFirst(values + i, count))), i16, rest);
    std::copy_n(rest, count, codes + i);
  }
  return scale;
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {

HWY_EXPORT(Int8Columns);
HWY_EXPORT(Int8Rows);
HWY_EXPORT(ComputeInt8Strip);
HWY_EXPORT(QuantizeRow);

}  // namespace

int Int8PanelWidth() { return HWY_DYNAMIC_DISPATCH(Int8Columns)(); }
int Int8BlockRows() { return HWY_DYNAMIC_DISPATCH(Int8Rows)(); }
void ComputeInt8Strip(const Int8StripParams& params) {
  HWY_DYNAMIC_DISPATCH(ComputeInt8Strip)(params);
}
float QuantizeRow(const float* values, int64_t size, int16_t* codes) {
  return HWY_DYNAMIC_DISPATCH(QuantizeRow)(values, size, codes);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
