// The head of a classifier: class scores from the pooled vectors of texts, or from token vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/encoding/row_head.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"

namespace beamline {

// Computes in float32, whatever the encoder computes in and wherever, on a CPU's backend: pooling
// leaves float32 (PoolParams::output), which a GPU multiplies by no 16-bit weight, and one row for
// each text, or a few products for each token, are so little that bringing it to the host, where
// the scores have to go anyway, costs less than casting it there would.
class ClassifierHead final : public RowHead {
 public:
  // Reads and packs the tensors of `spec`. Errors name the tensor. `host` is a CPU backend.
  static absl::StatusOr<std::unique_ptr<ClassifierHead>> Create(const ClassifierSpec& spec,
                                                                int32_t hidden_size,
                                                                const Checkpoint& checkpoint,
                                                                std::unique_ptr<Backend> host);

  // The logits of `rows`, [num_rows, hidden_size]: [num_rows, num_labels].
  absl::StatusOr<std::vector<float>> Compute(std::span<const float> rows) override;

  int32_t width() const override { return spec_.num_labels; }
  int64_t num_parameters() const { return weights_.num_parameters; }
  int64_t weight_bytes() const { return weights_.bytes; }

 private:
  // Rows per call of the operators; the buffers have this size.
  static constexpr int32_t kMostRows = 64;

  ClassifierHead(const ClassifierSpec& spec, int32_t hidden_size, std::unique_ptr<Backend> host)
      : host_(std::move(host)), spec_(spec), hidden_size_(hidden_size) {}
  absl::Status Load(const Checkpoint& checkpoint);
  absl::StatusOr<Tensor> Rows(int32_t columns);

  const std::unique_ptr<Backend> host_;  // declared first, destroyed last
  const ClassifierSpec spec_;
  const int32_t hidden_size_;
  TransformerWeights weights_;    // owns the memory of the layers below
  LinearWeights dense_, output_;  // dense_ has no weight if the spec has none
  NormWeights norm_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Tensor input_, inner_, logits_;  // [kMostRows, ...]
};

}  // namespace beamline
