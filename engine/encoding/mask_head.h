// The MLM head: how likely each token of the vocabulary is at a masked position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"

namespace beamline {

// Computes in float32 on a CPU backend, for the same reasons as ClassifierHead: few tokens of a
// text are masked, and only their hidden states are copied.
class MaskHead {
 public:
  // Reads and packs the tensors of `spec`, the head of `encoder`; its matmuls are in float32.
  // Errors name the tensor. `host` is a CPU backend.
  static absl::StatusOr<std::unique_ptr<MaskHead>> Create(const MaskHeadSpec& spec,
                                                          const StackSpec& encoder,
                                                          const Checkpoint& checkpoint,
                                                          const ModelTypes& types,
                                                          std::unique_ptr<Backend> host);

  // The head's matrix, usually the token embedding matrix.
  static const std::string& TableName(const MaskHeadSpec& spec) {
    return spec.output.weights.front();
  }

  // Receives the logits, [vocab_size], of each of `rows`, [num_rows, hidden_size], in order.
  using TakeLogits = absl::FunctionRef<void(size_t row, std::span<const float> logits)>;
  absl::Status Compute(std::span<const float> rows, TakeLogits take);

  int64_t num_parameters() const { return weights_.num_parameters; }
  int64_t weight_bytes() const { return weights_.bytes; }

 private:
  // Rows per call of the operators; the buffers have this size.
  static constexpr int32_t kMostRows = 16;

  MaskHead(const MaskHeadSpec& spec, const StackSpec& encoder, std::unique_ptr<Backend> host)
      : host_(std::move(host)),
        spec_(spec),
        hidden_size_(encoder.hidden_size),
        inner_size_(encoder.embedding_size()),
        vocab_size_(encoder.vocab_size) {}
  absl::Status Load(const Checkpoint& checkpoint, const ModelTypes& types);
  absl::StatusOr<Tensor> Rows(int32_t columns);

  const std::unique_ptr<Backend> host_;  // declared first, destroyed last
  const MaskHeadSpec spec_;
  const int32_t hidden_size_, inner_size_, vocab_size_;
  TransformerWeights weights_;  // owns the memory of the layers below
  LinearWeights dense_, output_;
  NormWeights norm_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Tensor input_, inner_, logits_;  // [kMostRows, ...]
};

}  // namespace beamline
