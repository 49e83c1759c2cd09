#include "engine/encoding/classifier_head.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/transformer/tensor_reader.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<ClassifierHead>> ClassifierHead::Create(
    const ClassifierSpec& spec, int32_t hidden_size, const Checkpoint& checkpoint,
    std::unique_ptr<Backend> host) {
  std::unique_ptr<ClassifierHead> head(new ClassifierHead(spec, hidden_size, std::move(host)));
  BEAMLINE_RETURN_IF_ERROR(head->Load(checkpoint));
  return head;
}

absl::Status ClassifierHead::Load(const Checkpoint& checkpoint) {
  TensorReader reader(checkpoint, Shard(), DType::kFloat32, *host_, weights_);
  const int32_t inner_size = spec_.dense_size > 0 ? spec_.dense_size : hidden_size_;
  if (!spec_.dense.weights.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        dense_, reader.Linear(spec_.dense, {inner_size}, hidden_size_, LinearSplit::kOut));
  }
  BEAMLINE_ASSIGN_OR_RETURN(norm_, reader.Norm(spec_.norm, inner_size));
  BEAMLINE_ASSIGN_OR_RETURN(
      output_, reader.Linear(spec_.output, {spec_.num_labels}, inner_size, LinearSplit::kOut));
  BEAMLINE_ASSIGN_OR_RETURN(input_, Rows(hidden_size_));
  BEAMLINE_ASSIGN_OR_RETURN(inner_, Rows(inner_size));
  BEAMLINE_ASSIGN_OR_RETURN(logits_, Rows(spec_.num_labels));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ClassifierHead::Rows(int32_t columns) {
  const size_t bytes = sizeof(float) * kMostRows * static_cast<size_t>(columns);
  BEAMLINE_ASSIGN_OR_RETURN(auto buffer, host_->Allocate(bytes));
  buffers_.push_back(std::move(buffer));
  return Tensor(buffers_.back()->data(), DType::kFloat32, {kMostRows, columns});
}

absl::StatusOr<std::vector<float>> ClassifierHead::Compute(std::span<const float> rows) {
  const auto width = static_cast<size_t>(hidden_size_);
  const auto num_labels = static_cast<size_t>(spec_.num_labels);
  const size_t num_rows = rows.size() / width;
  std::vector<float> logits(num_rows * num_labels);
  for (size_t row = 0; row < num_rows; row += kMostRows) {
    const size_t count = std::min<size_t>(num_rows - row, kMostRows);
    host_->CopyToDevice(rows.data() + row * width, input_.data, count * width * sizeof(float));
    Tensor inner = input_.First(static_cast<int64_t>(count));
    if (dense_.weight != nullptr) {
      MatMulParams dense;
      dense.x = inner;
      dense.weight = dense_.weight.get();
      dense.bias = dense_.bias;
      dense.activation = spec_.activation;
      dense.y = inner_.First(static_cast<int64_t>(count));
      host_->MatMul(dense);
      inner = dense.y;
    }
    if (!norm_.gain.empty()) {
      host_->Norm({.kind = NormKind::kLayerNorm,
                   .x = inner,
                   .gain = norm_.gain,
                   .bias = norm_.bias,
                   .epsilon = spec_.norm_epsilon,
                   .y = inner});
    }
    MatMulParams output;
    output.x = inner;
    output.weight = output_.weight.get();
    output.bias = output_.bias;
    output.y = logits_.First(static_cast<int64_t>(count));
    host_->MatMul(output);
    BEAMLINE_RETURN_IF_ERROR(host_->CopyToHost(logits_.data, logits.data() + row * num_labels,
                                               count * num_labels * sizeof(float)));
  }
  return logits;
}

}  // namespace beamline
