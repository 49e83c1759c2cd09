// A packed weight that computes its product in strips. MatMul divides the work and applies the
// epilogue; one inner kernel per data type computes a strip.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/memory_counts.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/weight_pages.h"

namespace beamline::cpu {

class CpuWeight : public PackedWeight {
 public:
  DType dtype() const { return dtype_; }
  // Consecutive output features of a strip. The last strip may have fewer.
  int strip_width() const { return strip_width_; }
  int num_strips() const { return num_strips_; }
  // Limit of the rows of one ComputeStrip.
  int max_rows() const { return max_rows_; }
  double gflops_per_core() const { return gflops_per_core_; }
  // Counts the packed bytes, with padding, in `counts` from then on.
  void CountIn(std::shared_ptr<MemoryCounts> counts) {
    counted_ = CountedBytes(std::move(counts), MemoryKind::kWeights, bytes_);
  }

  // tile[r][c] = sum over k of x[r][k] * weight[strip * strip_width + c][k]. Columns past
  // out_features are undefined. `workspace` has workspace_floats() floats. REQUIRES: 1 <= num_rows
  // <= max_rows(); tile is aligned to a cache line.
  virtual void ComputeStrip(const float* x,  // [num_rows, in_features], rows x_stride apart
                            int64_t x_stride, int num_rows, int strip,
                            float* tile,  // [num_rows, strip_width]
                            float* workspace) const = 0;
  virtual size_t workspace_floats() const { return 0; }

 protected:
  void SetShape(std::span<const HostMatrix> parts) {
    for (const HostMatrix& part : parts) {
      out_features_ += part.transposed ? part.cols : part.rows;
      in_features_ = part.transposed ? part.rows : part.cols;
    }
  }

  DType dtype_ = DType::kFloat32;
  int strip_width_ = 0;
  int num_strips_ = 0;
  int max_rows_ = 0;
  double gflops_per_core_ = 50;  // rough estimate, to tell small products from large ones
  size_t bytes_ = 0;             // of the packed values

 private:
  CountedBytes counted_;
};

// Packs for `num_threads` threads, into memory of `pages`. The parts' shapes must be checked
// already. `stored`: float32, bfloat16, float16 or int8 (quantised here, one scale for each output
// feature) in memory; the product is in float32.
std::unique_ptr<CpuWeight> PackFloat32Weight(std::span<const HostMatrix> parts, DType stored,
                                             int num_threads, WeightPages& pages);
absl::StatusOr<std::unique_ptr<CpuWeight>> PackBFloat16Weight(std::span<const HostMatrix> parts,
                                                              int num_threads, WeightPages& pages);

// Quantises to int8, with one scale for each output feature. The product quantises its rows too,
// one scale for each, and sums integers. UNIMPLEMENTED above kMaxInt8Depth (int8_strip.h).
absl::StatusOr<std::unique_ptr<CpuWeight>> PackInt8Weight(std::span<const HostMatrix> parts,
                                                          int num_threads, WeightPages& pages);

// OK if this CPU multiplies bfloat16 natively.
absl::Status SupportsBFloat16();

// Panels per strip, 1 to `most`: the largest number that still divides evenly over the threads.
int ChooseStripPanels(int64_t num_panels, int most, int num_threads);

// Iterates over the rows of stacked parts: calls row(out_feature, values) with values [in_features]
// converted to float32.
void ForEachWeightRow(std::span<const HostMatrix> parts,
                      absl::FunctionRef<void(int64_t out_feature, const float* values)> row);

}  // namespace beamline::cpu
