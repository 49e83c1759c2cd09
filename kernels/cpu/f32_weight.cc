// The float32 product: stores its weights as panels in float32, 16 bits or int8 (f32_strip.h
// computes with them).
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/f32_strip.h"
#include "kernels/cpu/int8_strip.h"
#include "kernels/cpu/sanitized_range.h"
#include "kernels/float16.h"

namespace beamline::cpu {
namespace {

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
    strip_panels_ = ChooseStripPanels(num_panels_, /*most=*/4, num_threads);
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
    if (scales_ == nullptr) return;
    const float* const scales = scales_.get() + first_panel * panel_width_;
    const int64_t num_columns = params.num_panels * panel_width_;
    for (int r = 0; r < num_rows; ++r) {
      for (int64_t c = 0; c < num_columns; ++c) tile[r * strip_width_ + c] *= scales[c];
    }
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
      case DType::kInt8:
        return PackQuantized(parts);
      default:
        return PackAs<float>(parts, [](float value) { return value; });
    }
  }

  // Where an output feature's values go, panel_width_ apart.
  template <typename Stored>
  Stored* Column(int64_t out_feature) {
    return reinterpret_cast<Stored*>(memory_.get()) +
           out_feature / panel_width_ * panel_width_ * in_features_ + out_feature % panel_width_;
  }
  template <typename Stored, typename Narrow>
  void PackAs(std::span<const HostMatrix> parts, Narrow narrow) {
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      Stored* const to = Column<Stored>(out_feature);
      for (int64_t k = 0; k < in_features_; ++k) to[k * panel_width_] = narrow(values[k]);
    });
  }
  void PackQuantized(std::span<const HostMatrix> parts) {
    const size_t num_columns = static_cast<size_t>(num_panels_ * panel_width_);
    scales_ = std::make_unique<float[]>(num_columns);
    bytes_ += num_columns * sizeof(float);
    std::vector<int16_t> codes(PaddedInt8Depth(in_features_));
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      scales_[out_feature] = QuantizeRow(values, in_features_, codes.data());
      auto* const to = Column<int8_t>(out_feature);
      for (int64_t k = 0; k < in_features_; ++k) {
        to[k * panel_width_] = static_cast<int8_t>(codes[k]);
      }
    });
  }

  const DType stored_;
  SharedBytes memory_;  // [num_panels, in_features, panel_width], zero past out_features
  std::unique_ptr<float[]> scales_;  // of int8: [num_panels * panel_width], else null
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
