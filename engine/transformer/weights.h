// The weights of a transformer on the device, in the order of the forward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/stage.h"
#include "kernels/backend.h"

namespace beamline {

struct LinearWeights {
  std::unique_ptr<PackedWeight> weight;  // [out_features, in_features]
  Tensor bias;                           // [out_features]; may be empty
};

struct NormWeights {
  Tensor gain;  // [hidden_size]; empty: no norm
  Tensor bias;  // [hidden_size]; may be empty
};

// Weights of an MoE layer.
struct ExpertWeights {
  LinearWeights router;  // [StackSpec::router_size(), hidden_size]; complete on every rank
  LinearWeights shared_in, shared_out;                // of the shared expert; may be empty
  std::vector<const PackedWeight*> in, out;           // per expert, as in ExpertsParams
  std::vector<std::unique_ptr<PackedWeight>> packed;  // own `in` and `out`
};

struct LayerWeights {
  NormWeights attention_norm;
  LinearWeights qkv;                 // queries' rows, then keys', then values'
  NormWeights query_norm, key_norm;  // gain [head_dim], or for all heads; may be empty
  // [StackSpec::disentangled.num_rows(), num_heads * head_dim], projected distance embeddings for
  // queries and keys (RelativePositions); may be empty.
  Tensor position_keys, position_queries;
  LinearWeights attention_output;
  NormWeights cross_norm;
  LinearWeights cross_query, cross_key_value, cross_output;
  NormWeights feed_forward_norm;
  LinearWeights feed_forward_in, feed_forward_out;
  ExpertWeights experts;  // instead of these two; empty router: no MoE
  NormWeights attention_output_norm, feed_forward_output_norm;
};

// A rank's tables have a part of the columns. A stage has its layers. Weights used before the first
// layer or after the last are on the stage with that layer.
struct StackWeights {
  Tensor token_table;  // [vocab_size, hidden_size]
  // [position_offset + max_positions + unused rows, hidden_size]; may be empty
  Tensor position_table;
  Tensor type_table;  // [num_types, hidden_size]; may be empty
  // cos_sin is empty if positions are not kRotary, or no layer is kLocal; complete on every rank.
  Rotary rotary, local_rotary;
  // [num_heads, 2 * max_distance + 1] by key - query, float32; empty without relative biases.
  Tensor position_bias;
  Tensor alibi_slopes;  // [num_heads] float32; may be empty
  // RelativePositions::rows and max_distance; null without disentangled attention.
  const int32_t* distance_rows = nullptr;
  int32_t max_distance = 0;
  LinearWeights convolution;  // after the first layer; may be empty
  NormWeights convolution_norm;
  NormWeights embedding_norm;
  LinearWeights projection;  // of embeddings, [hidden_size, projected_size]; may be empty
  // Post-norm: the norm that the layer before the first one here leaves to be applied; empty if
  // there is none.
  NormWeights entry_norm;
  std::vector<std::shared_ptr<const LayerWeights>> layers;  // layers may share an entry
  NormWeights final_norm;
  LinearWeights output_projection;  // [projected_size, hidden_size]; may be empty
};

struct TransformerWeights {
  std::optional<StackWeights> encoder;
  std::optional<StackWeights> decoder;
  LinearWeights head;

  std::vector<std::unique_ptr<Buffer>> buffers;  // own every tensor above
  int64_t num_parameters = 0;                    // of the whole model
  int64_t bytes = 0;
};

// Reads everything that `spec` (of the whole model) names. `types` decides the types of matrices;
// tables, gains and biases get the backend's activation type for it. INVALID_ARGUMENT names the
// tensor, with both shapes if they differ; also the tensors that are neither used by the spec nor
// listed in its ignored_tensors. A rank reads its shard: rows of queries, keys, values,
// feed_forward_in and the head; columns of the matrices after them and of the tables. Biases of
// matmuls whose results are summed belong to the first rank; all ranks have the norms. For tensors
// of other stages only names and shapes are checked.
absl::StatusOr<TransformerWeights> LoadWeights(const TransformerSpec& spec, const Stage& stage,
                                               const Shard& shard, const Checkpoint& checkpoint,
                                               const ModelTypes& types, Backend& backend);

}  // namespace beamline
