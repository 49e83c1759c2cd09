#include "engine/encoding/dense_head.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/tensor_reader.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<DenseHead>> DenseHead::Create(const std::vector<DenseSpec>& modules,
                                                             const CheckpointPath& folder,
                                                             std::unique_ptr<Backend> host) {
  BEAMLINE_CHECK(!modules.empty());
  std::unique_ptr<DenseHead> head(new DenseHead(std::move(host)));
  BEAMLINE_ASSIGN_OR_RETURN(head->input_, head->Rows(modules.front().in_size));
  for (const DenseSpec& spec : modules) {
    BEAMLINE_RETURN_IF_ERROR(head->Load(spec, folder / spec.folder));
  }
  return head;
}

absl::Status DenseHead::Load(const DenseSpec& spec, const CheckpointPath& folder) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(folder));
  TensorReader reader(*checkpoint, Shard(), DType::kFloat32, *host_, weights_);
  Module module;
  module.spec = spec;
  LinearNames names = {{"linear.weight"}, {}};
  if (spec.biased) names.biases = {"linear.bias"};
  BEAMLINE_ASSIGN_OR_RETURN(module.linear,
                            reader.Linear(names, {spec.out_size}, spec.in_size, LinearSplit::kOut));
  BEAMLINE_ASSIGN_OR_RETURN(module.output, Rows(spec.out_size));
  modules_.push_back(std::move(module));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DenseHead::Rows(int32_t columns) {
  const size_t bytes = sizeof(float) * kMostRows * static_cast<size_t>(columns);
  BEAMLINE_ASSIGN_OR_RETURN(auto buffer, host_->Allocate(bytes));
  buffers_.push_back(std::move(buffer));
  return Tensor(buffers_.back()->data(), DType::kFloat32, {kMostRows, columns});
}

absl::StatusOr<std::vector<float>> DenseHead::Compute(std::span<const float> rows) {
  const auto in_size = static_cast<size_t>(modules_.front().spec.in_size);
  const auto out_size = static_cast<size_t>(width());
  const size_t num_rows = rows.size() / in_size;
  std::vector<float> vectors(num_rows * out_size);
  for (size_t row = 0; row < num_rows; row += kMostRows) {
    const size_t count = std::min<size_t>(num_rows - row, kMostRows);
    host_->CopyToDevice(rows.data() + row * in_size, input_.data, count * in_size * sizeof(float));
    Tensor x = input_.First(static_cast<int64_t>(count));
    for (const Module& module : modules_) {
      MatMulParams product;
      product.x = x;
      product.weight = module.linear.weight.get();
      product.bias = module.linear.bias;
      product.activation = module.spec.activation;
      product.y = module.output.First(static_cast<int64_t>(count));
      host_->MatMul(product);
      x = product.y;
    }
    BEAMLINE_RETURN_IF_ERROR(host_->CopyToHost(x.data, vectors.data() + row * out_size,
                                               count * out_size * sizeof(float)));
  }
  return vectors;
}

}  // namespace beamline
