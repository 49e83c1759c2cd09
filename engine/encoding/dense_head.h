// The Dense modules of sentence-transformers, applied to a text's pooled vector.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/encoding/row_head.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"

namespace beamline {

// Computes in float32 on a CPU's backend, as ClassifierHead does and for its reasons.
class DenseHead final : public RowHead {
 public:
  // Reads and packs the weights of `modules` (at least one) from their folders below `folder`.
  // Errors name the folder and the tensor. `host` is a CPU backend.
  static absl::StatusOr<std::unique_ptr<DenseHead>> Create(const std::vector<DenseSpec>& modules,
                                                           const CheckpointPath& folder,
                                                           std::unique_ptr<Backend> host);

  // Of `rows`, [num_rows, in_size of the first module], what the modules in turn make of them:
  // [num_rows, width()].
  absl::StatusOr<std::vector<float>> Compute(std::span<const float> rows) override;

  int32_t width() const override { return modules_.back().spec.out_size; }
  int64_t num_parameters() const { return weights_.num_parameters; }
  int64_t weight_bytes() const { return weights_.bytes; }

 private:
  // Rows per call of the operators; the buffers have this size.
  static constexpr int32_t kMostRows = 64;

  struct Module {
    DenseSpec spec;
    LinearWeights linear;
    Tensor output;  // [kMostRows, out_size]
  };

  explicit DenseHead(std::unique_ptr<Backend> host) : host_(std::move(host)) {}
  absl::Status Load(const DenseSpec& spec, const CheckpointPath& folder);
  absl::StatusOr<Tensor> Rows(int32_t columns);

  const std::unique_ptr<Backend> host_;  // declared first, destroyed last
  TransformerWeights weights_;           // owns the memory of the modules
  std::vector<Module> modules_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Tensor input_;  // [kMostRows, in_size of the first]
};

}  // namespace beamline
