// Inner loops of the float32 product. Each output is one chain of multiply-adds over k in order,
// for any number of rows and any register block. So a row's result does not depend on its batch
// (docs/decisions/0002-cpu-matmul.md).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/f32_strip.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <utility>

#include "kernels/cpu/f32_strip.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

// AVX-512 and NEON have 32 vector registers, other targets 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
inline constexpr bool kManyRegisters = true;
#else
inline constexpr bool kManyRegisters = false;
#endif
inline constexpr int kVectorsPerPanel = 2;
// 12 rows would also fit in the registers. But an 8-way L1 cache cannot hold them if they lie a
// multiple of 4096 bytes apart, and 16 sums are enough to hide latency.
inline constexpr int kBlockRows = kManyRegisters ? 8 : 6;

int PanelWidth() { return kVectorsPerPanel * static_cast<int>(NumLanes()); }
int BlockRows() { return kBlockRows; }

// A register block of kRows x kPanels: tile = x * panels, or tile += x * panels.
template <typename Stored, int kRows, int kPanels>
HWY_NOINLINE void ComputeBlock(const F32StripParams& p, int64_t panel) {
  constexpr int kVectors = kPanels * kVectorsPerPanel;
  const size_t lanes = NumLanes();
  const int64_t panel_width = kVectorsPerPanel * static_cast<int64_t>(lanes);
  const Stored* weight = static_cast<const Stored*>(p.panels) + panel * p.panel_stride;
  float* tile = p.tile + panel * panel_width;
  VF sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      sums[r][c] =
          p.accumulate ? hn::Load(kF32, tile + r * p.tile_stride + c * lanes) : hn::Zero(kF32);
    }
  }
  const float* x = p.x;
  for (int64_t k = 0; k < p.depth; ++k) {
    VF w[kVectors];
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      w[c] = LoadWide(weight + (c / kVectorsPerPanel) * p.panel_stride +
                      (c % kVectorsPerPanel) * lanes);
    }
    weight += panel_width;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VF value = hn::Set(kF32, x[r * p.x_stride]);
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::MulAdd(value, w[c], sums[r][c]);
    }
    ++x;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      hn::Store(sums[r][c], kF32, tile + r * p.tile_stride + c * lanes);
    }
  }
}

// Uses as many panels at once as registers allow: with few rows, many columns keep the multipliers
// busy.
template <typename Stored, int kRows>
void ComputeRows(const F32StripParams& p) {
  constexpr int kAccumulators = kManyRegisters ? 24 : 12;
  constexpr int kPanels = std::min(4, std::max(1, kAccumulators / (kRows * kVectorsPerPanel)));
  int64_t panel = 0;
  for (; panel + kPanels <= p.num_panels; panel += kPanels)
    ComputeBlock<Stored, kRows, kPanels>(p, panel);
  if constexpr (kPanels > 2) {
    for (; panel + 2 <= p.num_panels; panel += 2) ComputeBlock<Stored, kRows, 2>(p, panel);
  }
  for (; panel < p.num_panels; ++panel) ComputeBlock<Stored, kRows, 1>(p, panel);
}

template <typename Stored, int... kRows>
void DispatchRows(const F32StripParams& p, std::integer_sequence<int, kRows...>) {
  (void)((p.num_rows == kRows + 1 && (ComputeRows<Stored, kRows + 1>(p), true)) || ...);
}

void DispatchStored(const F32StripParams& p) {
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  switch (p.weights) {
    case DType::kBFloat16:
      return DispatchRows<StoredBFloat16>(p, kRows);
    case DType::kFloat16:
      return DispatchRows<StoredFloat16>(p, kRows);
    case DType::kInt8:
      return DispatchRows<StoredInt8>(p, kRows);
    default:
      return DispatchRows<StoredFloat32>(p, kRows);
  }
}

// Divides a large depth into pieces, so that a piece of the strip stays in cache for all rows. The
// sums go through the tile between two pieces, which changes no bit.
void ComputeF32Strip(const F32StripParams& p) {
  const int64_t piece = p.depth > kMaxWholeDepth ? kPieceDepth : p.depth;
  int64_t k = 0;
  do {
    for (int row = 0; row < p.num_rows; row += kBlockRows) {
      F32StripParams block = p;
      block.x = p.x + row * p.x_stride + k;
      block.num_rows = std::min(kBlockRows, p.num_rows - row);
      block.depth = std::min(piece, p.depth - k);
      block.panels = static_cast<const char*>(p.panels) + k * PanelWidth() * SizeOf(p.weights);
      block.tile = p.tile + row * p.tile_stride;
      block.accumulate = k > 0;
      DispatchStored(block);
    }
    k += piece;
  } while (k < p.depth);
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(BlockRows);
HWY_EXPORT(ComputeF32Strip);

}  // namespace

int F32PanelWidth() { return HWY_DYNAMIC_DISPATCH(PanelWidth)(); }
int F32BlockRows() { return HWY_DYNAMIC_DISPATCH(BlockRows)(); }
void ComputeF32Strip(const F32StripParams& params) {
  HWY_DYNAMIC_DISPATCH(ComputeF32Strip)(params);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
