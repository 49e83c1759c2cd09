// The head of a masked language model: how likely each token of the vocabulary is in place of a
// masked one.
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

// Computes in float32 on a CPU's backend, as ClassifierHead does and for its reasons: of a text few
// tokens are masked, and only their hidden states come here.
class MaskHead {
 public:
  // Reads and packs the tensors of `spec`, the head of `encoder`, whose products are in float32.
  // Errors name the tensor. `host` is of a CPU.
  static absl::StatusOr<std::unique_ptr<MaskHead>> Create(const MaskHeadSpec& spec,
                                                          const StackSpec& encoder,
                                                          const Checkpoint& checkpoint,
                                                          const ModelTypes& types,
                                                          std::unique_ptr<Backend> host);

  // The matrix of a head, which is mostly the table of tokens once more.
  static const std::string& TableName(const MaskHeadSpec& spec) {
    return spec.output.weights.front();
  }

  // Tells the logits, [vocab_size], of each of `rows`, [num_rows, hidden_size], in their order.
  using TakeLogits = absl::FunctionRef<void(size_t row, std::span<const float> logits)>;
  absl::Status Compute(std::span<const float> rows, TakeLogits take);

  int64_t num_parameters() const { return weights_.num_parameters; }
  int64_t weight_bytes() const { return weights_.bytes; }

 private:
  // Of one call of the operators: what the buffers hold.
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
  TransformerWeights weights_;  // the owner of what the layers refer to
  LinearWeights dense_, output_;
  NormWeights norm_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Tensor input_, inner_, logits_;  // [kMostRows, ...]
};

}  // namespace beamline
