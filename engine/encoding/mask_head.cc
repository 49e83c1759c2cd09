#include "engine/encoding/mask_head.h"

#include <algorithm>

#include "base/status.h"
#include "engine/transformer/tensor_reader.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<MaskHead>> MaskHead::Create(const MaskHeadSpec& spec,
                                                           const StackSpec& encoder,
                                                           const Checkpoint& checkpoint,
                                                           const ModelTypes& types,
                                                           std::unique_ptr<Backend> host) {
  std::unique_ptr<MaskHead> head(new MaskHead(spec, encoder, std::move(host)));
  BEAMLINE_RETURN_IF_ERROR(head->Load(checkpoint, types));
  return head;
}

absl::Status MaskHead::Load(const Checkpoint& checkpoint, const ModelTypes& types) {
  TensorReader reader(checkpoint, Shard(), types, *host_, weights_);
  BEAMLINE_ASSIGN_OR_RETURN(
      dense_, reader.Linear(spec_.dense, {inner_size_}, hidden_size_, LinearSplit::kOut));
  BEAMLINE_ASSIGN_OR_RETURN(norm_, reader.Norm(spec_.norm, inner_size_));
  BEAMLINE_ASSIGN_OR_RETURN(
      output_, reader.Linear(spec_.output, {vocab_size_}, inner_size_, LinearSplit::kOut));
  BEAMLINE_ASSIGN_OR_RETURN(input_, Rows(hidden_size_));
  BEAMLINE_ASSIGN_OR_RETURN(inner_, Rows(inner_size_));
  BEAMLINE_ASSIGN_OR_RETURN(logits_, Rows(vocab_size_));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> MaskHead::Rows(int32_t columns) {
  const size_t bytes = sizeof(float) * kMostRows * static_cast<size_t>(columns);
  BEAMLINE_ASSIGN_OR_RETURN(auto buffer, host_->Allocate(bytes));
  buffers_.push_back(std::move(buffer));
  return Tensor(buffers_.back()->data(), DType::kFloat32, {kMostRows, columns});
}

absl::Status MaskHead::Compute(std::span<const float> rows, TakeLogits take) {
  const auto width = static_cast<size_t>(hidden_size_);
  const auto vocab_size = static_cast<size_t>(vocab_size_);
  const size_t num_rows = rows.size() / width;
  std::vector<float> logits(std::min<size_t>(num_rows, kMostRows) * vocab_size);
  for (size_t row = 0; row < num_rows; row += kMostRows) {
    const size_t count = std::min<size_t>(num_rows - row, kMostRows);
    const auto taken = static_cast<int64_t>(count);
    host_->CopyToDevice(rows.data() + row * width, input_.data, count * width * sizeof(float));
    MatMulParams dense;
    dense.x = input_.First(taken);
    dense.weight = dense_.weight.get();
    dense.bias = dense_.bias;
    dense.activation = spec_.activation;
    dense.y = inner_.First(taken);
    host_->MatMul(dense);
    NormParams norm;
    norm.x = dense.y;
    norm.gain = norm_.gain;
    norm.bias = norm_.bias;
    norm.epsilon = spec_.norm_epsilon;
    norm.y = dense.y;
    host_->Norm(norm);
    MatMulParams output;
    output.x = norm.y;
    output.weight = output_.weight.get();
    output.bias = output_.bias;
    output.y = logits_.First(taken);
    host_->MatMul(output);
    BEAMLINE_RETURN_IF_ERROR(
        host_->CopyToHost(logits_.data, logits.data(), count * vocab_size * sizeof(float)));
    for (size_t i = 0; i < count; ++i) {
      take(row + i, std::span(logits).subspan(i * vocab_size, vocab_size));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline
