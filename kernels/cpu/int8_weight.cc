// The int8 product: weights in int8, one scale for each output feature, quantised when they are
// packed, times rows that are quantised for each product (int8_strip.h computes with them).
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/math.h"
#include "fmt/format.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/int8_strip.h"
#include "kernels/cpu/sanitized_range.h"

namespace beamline::cpu {
namespace {

// A strip quantises its rows again, so it is wide.
constexpr int kMostStripPanels = 16;

class Int8Weight : public CpuWeight {
 public:
  Int8Weight(std::span<const HostMatrix> parts, int num_threads, WeightPages& pages) {
    SetShape(parts);
    dtype_ = DType::kInt8;
    depth_ = PaddedInt8Depth(in_features_);
    panel_width_ = Int8PanelWidth();
    gflops_per_core_ = 100;
    max_rows_ = 8 * Int8BlockRows();
    num_panels_ = CeilDiv(out_features_, panel_width_);
    strip_panels_ = ChooseStripPanels(num_panels_, kMostStripPanels, num_threads);
    strip_width_ = strip_panels_ * panel_width_;
    num_strips_ = static_cast<int>(CeilDiv(num_panels_, strip_panels_));
    Pack(parts, pages);
  }

  size_t workspace_floats() const override {
    return (Scratch::BytesFor<int16_t>(max_rows_ * depth_) + Scratch::BytesFor<float>(max_rows_)) /
           sizeof(float);
  }

  void ComputeStrip(const float* x, int64_t x_stride, int num_rows, int strip, float* tile,
                    float* workspace) const override {
    const int64_t first = static_cast<int64_t>(strip) * strip_panels_;
    const int64_t num_panels = std::min<int64_t>(strip_panels_, num_panels_ - first);
    float* const x_scales = workspace;
    auto* const x_codes =
        reinterpret_cast<int16_t*>(workspace + Scratch::BytesFor<float>(max_rows_) / sizeof(float));
    for (int r = 0; r < num_rows; ++r) {
      SanitizeRead(x + r * x_stride, in_features_ * sizeof(float));
      x_scales[r] = QuantizeRow(x + r * x_stride, in_features_, x_codes + r * depth_);
    }
    const Int8StripParams params = {.x = x_codes,
                                    .x_scales = x_scales,
                                    .num_rows = num_rows,
                                    .depth = in_features_,
                                    .panels = codes() + first * panel_width_ * depth_,
                                    .scales = scales() + first * panel_width_,
                                    .num_panels = num_panels,
                                    .tile = tile,
                                    .tile_stride = strip_width_};
    SanitizeBounds(params.panels, num_panels * panel_width_ * depth_);
    SanitizeBounds(params.scales, num_panels * panel_width_ * sizeof(float));
    SanitizeWrite(tile, num_rows * strip_width_ * sizeof(float));
    ComputeInt8Strip(params);
  }

 private:
  int8_t* codes() const { return reinterpret_cast<int8_t*>(codes_.get()); }
  float* scales() const { return reinterpret_cast<float*>(scales_.get()); }

  // Columns past out_features have codes and scales of 0.
  void Pack(std::span<const HostMatrix> parts, WeightPages& pages) {
    const int64_t num_columns = std::max<int64_t>(num_panels_ * panel_width_, 1);
    const size_t code_bytes = static_cast<size_t>(num_columns * depth_);
    codes_ = pages.Allocate(std::max<size_t>(code_bytes, 1));
    scales_ = pages.Allocate(num_columns * sizeof(float));
    bytes_ = code_bytes + num_columns * sizeof(float);
    std::vector<int16_t> row(depth_);
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      scales()[out_feature] = QuantizeRow(values, in_features_, row.data());
      int8_t* const panel = codes() + out_feature / panel_width_ * panel_width_ * depth_ +
                            out_feature % panel_width_ * 2;
      for (int64_t k = 0; k < depth_; ++k) {
        panel[k / 2 * 2 * panel_width_ + k % 2] = static_cast<int8_t>(row[k]);
      }
    });
  }

  int64_t depth_ = 0;  // of the panels
  int64_t num_panels_ = 0;
  int64_t panel_width_ = 0;
  int strip_panels_ = 0;
  SharedBytes codes_;   // int8, as Int8StripParams has them
  SharedBytes scales_;  // float [num_panels * panel width]
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackInt8Weight(std::span<const HostMatrix> parts,
                                                          int num_threads, WeightPages& pages) {
  const int64_t depth = parts.front().transposed ? parts.front().rows : parts.front().cols;
  if (depth > kMaxInt8Depth) {
    return absl::UnimplementedError(
        fmt::format("products in int8 have at most {} input features, and a weight has {}; use "
                    "compute=float32",
                    kMaxInt8Depth, depth));
  }
  return std::make_unique<Int8Weight>(parts, num_threads, pages);
}

}  // namespace beamline::cpu
