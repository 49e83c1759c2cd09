// The float32 product. Each output is one chain of multiply-adds over k in order, whatever the
// number of rows and the shape of the register block, so a row's result does not depend on its
// batch (docs/decisions/0002-cpu-matmul.md).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/f32_weight.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "base/math.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/f32_strip.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

// AVX-512 and NEON have 32 vector registers, the others 16.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
inline constexpr bool kManyRegisters = true;
#else
inline constexpr bool kManyRegisters = false;
#endif
inline constexpr int kVectorsPerPanel = 2;
inline constexpr int kBlockRows = kManyRegisters ? 12 : 6;

int PanelWidth() { return kVectorsPerPanel * static_cast<int>(NumLanes()); }
int BlockRows() { return kBlockRows; }

// A register block of kRows x kPanels: tile = x * panels, or tile += x * panels.
template <int kRows, int kPanels>
HWY_NOINLINE void ComputeBlock(const F32StripParams& p, int64_t panel) {
  constexpr int kVectors = kPanels * kVectorsPerPanel;
  const size_t lanes = NumLanes();
  const int64_t panel_width = kVectorsPerPanel * static_cast<int64_t>(lanes);
  const float* weight = p.panels + panel * p.panel_stride;
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
      w[c] = hn::Load(
          kF32, weight + (c / kVectorsPerPanel) * p.panel_stride + (c % kVectorsPerPanel) * lanes);
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

// As many panels at once as registers allow: few rows need many columns to keep the multipliers
// busy.
template <int kRows>
void ComputeRows(const F32StripParams& p) {
  constexpr int kAccumulators = kManyRegisters ? 24 : 12;
  constexpr int kPanels = std::min(4, std::max(1, kAccumulators / (kRows * kVectorsPerPanel)));
  int64_t panel = 0;
  for (; panel + kPanels <= p.num_panels; panel += kPanels) ComputeBlock<kRows, kPanels>(p, panel);
  if constexpr (kPanels > 2) {
    for (; panel + 2 <= p.num_panels; panel += 2) ComputeBlock<kRows, 2>(p, panel);
  }
  for (; panel < p.num_panels; ++panel) ComputeBlock<kRows, 1>(p, panel);
}

template <int... kRows>
void DispatchRows(const F32StripParams& p, std::integer_sequence<int, kRows...>) {
  (void)((p.num_rows == kRows + 1 && (ComputeRows<kRows + 1>(p), true)) || ...);
}

// Piece by piece of a large depth, so that a piece of the strip stays in cache for all rows. The
// sums pass through the tile between two pieces, which changes no bit.
void ComputeF32Strip(const F32StripParams& p) {
  const int64_t piece = p.depth > kMaxWholeDepth ? kPieceDepth : p.depth;
  int64_t k = 0;
  do {
    for (int row = 0; row < p.num_rows; row += kBlockRows) {
      F32StripParams block = p;
      block.x = p.x + row * p.x_stride + k;
      block.num_rows = std::min(kBlockRows, p.num_rows - row);
      block.depth = std::min(piece, p.depth - k);
      block.panels = p.panels + k * PanelWidth();
      block.tile = p.tile + row * p.tile_stride;
      block.accumulate = k > 0;
      DispatchRows(block, std::make_integer_sequence<int, kBlockRows>());
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

// Panels per strip, at most 4: the most that still divides evenly over the threads.
int ChooseStripPanels(int64_t num_panels, int num_threads) {
  int best = 1;
  int64_t best_time = std::numeric_limits<int64_t>::max();
  for (int panels = 4; panels >= 1; --panels) {
    const int64_t strips = CeilDiv(num_panels, panels);
    const int64_t time = CeilDiv(strips, num_threads) * panels;
    if (time < best_time) {
      best_time = time;
      best = panels;
    }
  }
  return best;
}

class Float32Weight : public CpuWeight {
 public:
  Float32Weight(std::span<const HostMatrix> parts, int num_threads) {
    SetShape(parts);
    panel_width_ = HWY_DYNAMIC_DISPATCH(PanelWidth)();
    // Many rows share a piece of a deep strip; a shallow one is better finished while its tile is
    // in L1.
    max_rows_ = HWY_DYNAMIC_DISPATCH(BlockRows)() * (in_features_ > kMaxWholeDepth ? 8 : 1);
    num_panels_ = CeilDiv(out_features_, panel_width_);
    strip_panels_ = ChooseStripPanels(num_panels_, num_threads);
    strip_width_ = strip_panels_ * panel_width_;
    num_strips_ = static_cast<int>(CeilDiv(num_panels_, strip_panels_));
    Pack(parts);
  }

  void ComputeStrip(const float* x, int64_t x_stride, int num_rows, int strip, float* tile,
                    float* /*workspace*/) const override {
    const int64_t first_panel = static_cast<int64_t>(strip) * strip_panels_;
    HWY_DYNAMIC_DISPATCH(ComputeF32Strip)
    ({.x = x,
      .x_stride = x_stride,
      .num_rows = num_rows,
      .depth = in_features_,
      .panels = panels() + first_panel * panel_width_ * in_features_,
      .panel_stride = panel_width_ * in_features_,
      .num_panels = std::min<int64_t>(strip_panels_, num_panels_ - first_panel),
      .tile = tile,
      .tile_stride = strip_width_});
  }

 private:
  float* panels() const { return reinterpret_cast<float*>(memory_.get()); }

  void Pack(std::span<const HostMatrix> parts) {
    const int64_t size = num_panels_ * panel_width_ * in_features_;
    bytes_ = std::max<int64_t>(size, 1) * sizeof(float);
    memory_ = AllocateAligned(bytes_);
    std::fill_n(panels(), size, 0.0f);
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      float* to = panels() + out_feature / panel_width_ * panel_width_ * in_features_ +
                  out_feature % panel_width_;
      for (int64_t k = 0; k < in_features_; ++k) to[k * panel_width_] = values[k];
    });
  }

  AlignedBytes memory_;  // [num_panels, in_features, panel_width], zero past out_features
  int64_t num_panels_ = 0;
  int64_t panel_width_ = 0;
  int strip_panels_ = 0;
};

}  // namespace

std::unique_ptr<CpuWeight> PackFloat32Weight(std::span<const HostMatrix> parts, int num_threads) {
  return std::make_unique<Float32Weight>(parts, num_threads);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
