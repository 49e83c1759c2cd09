// Reads tensors of a checkpoint, checks their shapes against the spec and copies them to the
// device; for a rank, only its shard.
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

// How ranks divide a matrix: by the outputs of each part; by the inputs (results are summed); or
// not at all.
enum class LinearSplit : uint8_t { kOut, kIn, kWhole };

// Scales a matrix and its bias when they are read. Only the parts from `first_part` on are scaled;
// it is 0 if the parts are in one tensor.
struct LinearScale {
  float factor = 1.0f;
  size_t first_part = 0;
};

// Which parts of a matrix are key-value heads: those from `first_part` on, with `num_heads` heads
// each; 0: none. Ranks divide such a part by heads. If there are more ranks than heads, several
// ranks have the same head.
struct KvParts {
  int64_t num_heads = 0;
  size_t first_part = 0;
};

class TensorReader {
 public:
  // `types` decides the types of matrices. `weights` receives the buffers and totals. Sizes and
  // shapes below are those of the whole model.
  TensorReader(const Checkpoint& checkpoint, const Shard& shard, const ModelTypes& types,
               Backend& backend, TransformerWeights& weights);

  // Whether tensors requested from now on are kept. Otherwise only names and shapes are checked,
  // and results are empty. Initially true.
  void Keep(bool keeps) { keeps_ = keeps; }

  // [rows, columns] in the activation type, times `scale`; read once even if several stacks use it.
  // For a rank: its columns.
  absl::StatusOr<Tensor> Table(const std::string& name, int64_t rows, int64_t columns,
                               float scale = 1.0f);
  // [sum of part_sizes, in_features]. Stored as one tensor, as one tensor per part, or as one
  // tensor with the rows of all parts for each key-value head (LinearNames::grouped).
  absl::StatusOr<LinearWeights> Linear(const LinearNames& names, std::vector<int64_t> part_sizes,
                                       int64_t in_features, LinearSplit split,
                                       const KvParts& kv = {}, const LinearScale& scale = {});
  // Multiplies rows, [num_rows, in_features] on the device, by a matrix that is stored in one
  // tensor, and adds its bias. Returns [num_rows, out_features] in the activation type; for a rank,
  // its outputs. Empty if not kept.
  absl::StatusOr<Tensor> Product(const Tensor& rows, const LinearNames& names,
                                 int64_t out_features);
  // Copies indices to the device; null if not kept.
  absl::StatusOr<const int32_t*> UploadIndices(std::span<const int32_t> values);
  // The bias of the logits, [size] in float32, padded with zeros to a whole tile
  // (MatMulParams::bias). Empty if all values are 0. For a rank: its columns.
  absl::StatusOr<Tensor> LogitsBias(const std::string& name, int64_t size);
  // Reads a norm; adds the offset to its gain and multiplies the gain by `scale`.
  absl::StatusOr<NormWeights> Norm(const NormNames& names, int64_t size, float scale = 1.0f);
  // All values of a tensor, for further computation; empty if not kept.
  absl::StatusOr<std::vector<float>> Floats(const std::string& name, std::vector<int64_t> shape);
  // Copies a computed table to the device, times `scale`. For a rank: its columns.
  absl::StatusOr<Tensor> Upload(std::span<const float> values, int64_t rows, int64_t columns,
                                float scale = 1.0f);
  // One float32 value per head. For a rank: its heads.
  absl::StatusOr<Tensor> UploadOfHeads(std::span<const float> values);
  // A float32 table that every rank has completely. It may be too large to exist in host memory as
  // well, so `fill` writes some rows at a time.
  using FillRows = absl::FunctionRef<void(int64_t first_row, std::span<float> rows)>;
  absl::StatusOr<Tensor> UploadFloats(int64_t rows, int64_t columns, FillRows fill);

  const Shard& shard() const { return shard_; }
  DType activation_dtype() const { return activation_dtype_; }

  // INVALID_ARGUMENT naming tensors that were not read and do not match `ignored`.
  absl::Status CheckAllRead(std::span<const std::string> ignored) const;

 private:
  // A range of a stored matrix: outputs begin .. begin + size of weights[tensor].
  struct OutputRange {
    size_t tensor = 0;
    int64_t begin = 0, size = 0;
  };

  // This rank's ranges of parts that are in `num_tensors` tensors: one per part, or one for all.
  std::vector<OutputRange> OutputRanges(std::span<const int64_t> part_sizes, size_t num_tensors,
                                        LinearSplit split, const KvParts& kv) const;
  // The same for parts in one tensor that is grouped by key-value heads.
  std::vector<OutputRange> GroupedRanges(std::span<const int64_t> part_sizes,
                                         const KvParts& kv) const;
  // The `ranges` of vectors of `sizes`, concatenated, in the activation type; empty without ranges.
  // A vector may be stored with leading dimensions of 1; a vector without a name is zeros.
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
  std::set<std::string> read_;     // including tensors left to other stages
  std::set<std::string> checked_;  // tensors of read_ whose values were checked
  std::map<std::string, Tensor> tables_;
};

}  // namespace beamline
