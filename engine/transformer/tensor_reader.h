// Tensors of a checkpoint, checked against the shapes that a spec expects and moved to the device;
// of a rank, its shard of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"

namespace beamline {

// What ranks divide of a matrix: each part's outputs; the inputs, whose products they add up; or
// nothing.
enum class LinearSplit : uint8_t { kOut, kIn, kWhole };

// What multiplies a matrix and its bias as they are read: the parts from `first_part` on, which is
// 0 where the parts lie in one tensor.
struct LinearScale {
  float factor = 1.0f;
  size_t first_part = 0;
};

// Which parts of a matrix are key/value heads: those from `first_part` on, `num_heads` each; 0:
// none. Ranks divide such a part by heads, and several have the same one where there are more ranks
// than heads.
struct KvParts {
  int64_t num_heads = 0;
  size_t first_part = 0;
};

class TensorReader {
 public:
  // Matrices get the types that `types` says. `weights` receives the buffers and the totals. Sizes
  // and shapes below are those of the whole.
  TensorReader(const Checkpoint& checkpoint, const Shard& shard, const ModelTypes& types,
               Backend& backend, TransformerWeights& weights);

  // Whether what is asked for from now on is read. Of what is not, names and shapes are checked and
  // the result is empty. As it begins: it is.
  void Keep(bool keeps) { keeps_ = keeps; }

  // [rows, columns] in the activation type, times `scale`; read once even when several stacks name
  // it. Of a rank, its columns.
  absl::StatusOr<Tensor> Table(const std::string& name, int64_t rows, int64_t columns,
                               float scale = 1.0f);
  // [sum of part_sizes, in_features]: stored as one tensor, or as one per part; or as one tensor
  // that has for each key/value head its rows of every part (LinearNames::grouped).
  absl::StatusOr<LinearWeights> Linear(const LinearNames& names, std::vector<int64_t> part_sizes,
                                       int64_t in_features, LinearSplit split,
                                       const KvParts& kv = {}, const LinearScale& scale = {});
  // Rows, [num_rows, in_features] on the device, times such a matrix that is stored in one tensor,
  // with its bias: [num_rows, out_features] in the activation type; of a rank, its outputs. Not
  // kept: empty.
  absl::StatusOr<Tensor> Product(const Tensor& rows, const LinearNames& names,
                                 int64_t out_features);
  // Numbers that index something, on the device as they are; null where they are not kept.
  absl::StatusOr<const int32_t*> UploadIndices(std::span<const int32_t> values);
  // The bias of the logits, [size] in float32 as they are, with zeros behind it up to a whole tile
  // (MatMulParams::bias). Empty when all of it is 0: adding it would change nothing. Of a rank, of
  // its columns.
  absl::StatusOr<Tensor> LogitsBias(const std::string& name, int64_t size);
  // With its gain, to which the offset is added, times `scale`.
  absl::StatusOr<NormWeights> Norm(const NormNames& names, int64_t size, float scale = 1.0f);
  // All values of a tensor of which something else is made; empty where it is not kept.
  absl::StatusOr<std::vector<float>> Floats(const std::string& name, std::vector<int64_t> shape);
  // A table that is computed, not stored, times `scale`. Of a rank, its columns.
  absl::StatusOr<Tensor> Upload(std::span<const float> values, int64_t rows, int64_t columns,
                                float scale = 1.0f);
  // A number of each head, in float32. Of a rank, of its heads.
  absl::StatusOr<Tensor> UploadOfHeads(std::span<const float> values);
  // One that stays float32, that every rank has whole and that may be too large for the host to
  // hold besides: `fill` writes some of its rows at a time.
  using FillRows = absl::FunctionRef<void(int64_t first_row, std::span<float> rows)>;
  absl::StatusOr<Tensor> UploadFloats(int64_t rows, int64_t columns, FillRows fill);

  const Shard& shard() const { return shard_; }
  DType activation_dtype() const { return activation_dtype_; }

  // INVALID_ARGUMENT naming tensors that nothing has read and `ignored` does not match.
  absl::Status CheckAllRead(std::span<const std::string> ignored) const;

 private:
  // A part of a stored matrix: outputs begin .. begin + size of weights[tensor].
  struct OutputRange {
    size_t tensor = 0;
    int64_t begin = 0, size = 0;
  };

  // What this rank takes of parts that lie in `num_tensors` tensors, one for each, or one for all.
  std::vector<OutputRange> OutputRanges(std::span<const int64_t> part_sizes, size_t num_tensors,
                                        LinearSplit split, const KvParts& kv) const;
  // The same of parts that lie in one tensor in groups, one for each key/value head.
  std::vector<OutputRange> GroupedRanges(std::span<const int64_t> part_sizes,
                                         const KvParts& kv) const;
  // `ranges` of vectors of `sizes`, one behind the other, in the activation type; empty
  // without ranges. Each may be stored with leading dimensions of 1; one without a name is zeros.
  absl::StatusOr<Tensor> Vector(std::span<const std::string> names, std::span<const int64_t> sizes,
                                std::span<const OutputRange> ranges, const LinearScale& scale = {});
  // The rank's columns of a table, times `scale`.
  absl::StatusOr<Tensor> UploadColumns(const void* values, DType dtype, int64_t rows,
                                       int64_t columns, float scale);
  absl::StatusOr<CheckpointTensor> Find(const std::string& name, std::vector<int64_t> shape);
  absl::StatusOr<void*> UploadBytes(std::span<const std::byte> bytes);

  const Checkpoint& checkpoint_;
  const Shard shard_;
  const ModelTypes types_;
  const DType activation_dtype_;
  Backend& backend_;
  TransformerWeights& weights_;
  bool keeps_ = true;
  std::set<std::string> read_;     // or left to another stage
  std::set<std::string> checked_;  // of them, those whose values are
  std::map<std::string, Tensor> tables_;
};

}  // namespace beamline
