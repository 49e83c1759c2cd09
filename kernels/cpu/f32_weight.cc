// The float32 product: stores its weights as panels in float32 or 16 bits (f32_strip.h computes
// with them).
#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "base/math.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/f32_strip.h"
#include "kernels/cpu/sanitized_range.h"
#include "kernels/float16.h"

namespace beamline::cpu {
namespace {

// Panels per strip, at most 4: the largest number that still divides evenly over the threads.
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

// The inner loops are compiled without sanitizers, as they would take nearly all of the tests'
// time. So their memory ranges are checked here.
void CheckRanges(const F32StripParams& p, int64_t panel_width) {
  for (int row = 0; row < p.num_rows; ++row) {
    SanitizeRead(p.x + row * p.x_stride, p.depth * sizeof(float));
    SanitizeWrite(p.tile + row * p.tile_stride, p.num_panels * panel_width * sizeof(float));
  }
  SanitizeBounds(p.panels, p.num_panels * p.panel_stride * SizeOf(p.weights));
}

class Float32Weight : public CpuWeight {
 public:
  Float32Weight(std::span<const HostMatrix> parts, DType stored, int num_threads,
                WeightPages& pages)
      : stored_(stored) {
    SetShape(parts);
    panel_width_ = F32PanelWidth();
    // In a deep strip, many rows share a piece. A shallow strip is finished while its tile is in
    // L1.
    max_rows_ = F32BlockRows() * (in_features_ > kMaxWholeDepth ? 8 : 1);
    num_panels_ = CeilDiv(out_features_, panel_width_);
    strip_panels_ = ChooseStripPanels(num_panels_, num_threads);
    strip_width_ = strip_panels_ * panel_width_;
    num_strips_ = static_cast<int>(CeilDiv(num_panels_, strip_panels_));
    Pack(parts, pages);
  }

  void ComputeStrip(const float* x, int64_t x_stride, int num_rows, int strip, float* tile,
                    float* /*workspace*/) const override {
    const int64_t first_panel = static_cast<int64_t>(strip) * strip_panels_;
    const F32StripParams params = {
        .x = x,
        .x_stride = x_stride,
        .num_rows = num_rows,
        .depth = in_features_,
        .panels = memory_.get() + first_panel * panel_width_ * in_features_ * SizeOf(stored_),
        .weights = stored_,
        .panel_stride = panel_width_ * in_features_,
        .num_panels = std::min<int64_t>(strip_panels_, num_panels_ - first_panel),
        .tile = tile,
        .tile_stride = strip_width_};
    CheckRanges(params, panel_width_);
    ComputeF32Strip(params);
  }

 private:
  // The last panel is zero past out_features.
  void Pack(std::span<const HostMatrix> parts, WeightPages& pages) {
    const int64_t size = num_panels_ * panel_width_ * in_features_;
    bytes_ = std::max<int64_t>(size, 1) * SizeOf(stored_);
    memory_ = pages.Allocate(bytes_);
    switch (stored_) {
      case DType::kBFloat16:
        return PackAs<uint16_t>(parts, ToBFloat16);
      case DType::kFloat16:
        return PackAs<uint16_t>(parts, ToFloat16);
      default:
        return PackAs<float>(parts, [](float value) { return value; });
    }
  }

  template <typename Stored, typename Narrow>
  void PackAs(std::span<const HostMatrix> parts, Narrow narrow) {
    auto* const panels = reinterpret_cast<Stored*>(memory_.get());
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      Stored* to = panels + out_feature / panel_width_ * panel_width_ * in_features_ +
                   out_feature % panel_width_;
      for (int64_t k = 0; k < in_features_; ++k) to[k * panel_width_] = narrow(values[k]);
    });
  }

  const DType stored_;
  SharedBytes memory_;  // [num_panels, in_features, panel_width], zero past out_features
  int64_t num_panels_ = 0;
  int64_t panel_width_ = 0;
  int strip_panels_ = 0;
};

}  // namespace

std::unique_ptr<CpuWeight> PackFloat32Weight(std::span<const HostMatrix> parts, DType stored,
                                             int num_threads, WeightPages& pages) {
  return std::make_unique<Float32Weight>(parts, stored, num_threads, pages);
}

}  // namespace beamline::cpu
