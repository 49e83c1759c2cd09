// The CPU backend with the numbers of float16: weights and what operators write to activations are
// rounded to it, and are infinite beyond its range. The cache keeps what it got.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "engine/transformer/float_conversion.h"
#include "tests/engine/late_backend.h"

namespace beamline {

class HalfBackend : public LateBackend {
 public:
  // Without `rounds` it only looks.
  explicit HalfBackend(bool rounds) : LateBackend(/*num_threads=*/1), rounds_(rounds) {}

  // Of what embeddings and products that add to a residual wrote: hidden states.
  float largest_hidden() const { return largest_hidden_; }

  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    if (!rounds_) return LateBackend::PackWeight(parts, precision);
    std::deque<std::vector<std::byte>> halves;
    std::vector<HostMatrix> rounded(parts.begin(), parts.end());
    for (HostMatrix& part : rounded) {
      AppendConverted(part.data, static_cast<size_t>(part.rows * part.cols), part.dtype,
                      DType::kFloat16, halves.emplace_back());
      part.data = halves.back().data();
      part.dtype = DType::kFloat16;
    }
    return LateBackend::PackWeight(rounded, precision);
  }

 private:
  void Compute(const Operation& operation) override {
    LateBackend::Compute(operation);
    if (const auto* const* embed = std::get_if<const EmbedParams*>(&operation)) {
      Measure((*embed)->output);
      Round((*embed)->output);
    } else if (const auto* const* product = std::get_if<const MatMulParams*>(&operation)) {
      if (!(*product)->residual.empty()) Measure((*product)->y);
      Round((*product)->y);
      Round((*product)->normed);
    } else if (const auto* const* norm = std::get_if<const NormParams*>(&operation)) {
      Round((*norm)->y);
    } else if (const auto* const* heads = std::get_if<const ProjectHeadsParams*>(&operation)) {
      for (const Tensor& tensor : {(*heads)->query, (*heads)->key, (*heads)->value}) Round(tensor);
    } else if (const auto* const* attention = std::get_if<const AttentionParams*>(&operation)) {
      Round((*attention)->output);
    }
  }

  void Measure(const Tensor& tensor) {
    for (int64_t row = 0; row < tensor.num_rows(); ++row) {
      for (const float value : std::span(tensor.row<float>(row), tensor.dim(-1))) {
        largest_hidden_ = std::max(largest_hidden_, std::fabs(value));
      }
    }
  }
  void Round(const Tensor& tensor) const {
    if (!rounds_ || tensor.empty()) return;
    const auto width = static_cast<size_t>(tensor.dim(-1));
    for (int64_t row = 0; row < tensor.num_rows(); ++row) {
      std::vector<std::byte> half, wide;
      AppendConverted(tensor.row<float>(row), width, DType::kFloat32, DType::kFloat16, half);
      AppendConverted(half.data(), width, DType::kFloat16, DType::kFloat32, wide);
      std::memcpy(tensor.row<float>(row), wide.data(), wide.size());
    }
  }

  const bool rounds_;
  float largest_hidden_ = 0.0f;
};

}  // namespace beamline
