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

// Of a mixture of experts.
struct ExpertWeights {
  LinearWeights router;  // [StackSpec::router_size(), hidden_size]; every rank has all
  LinearWeights shared_in, shared_out;                // of the expert of all rows; may be empty
  std::vector<const PackedWeight*> in, out;           // of each expert, as ExpertsParams has them
  std::vector<std::unique_ptr<PackedWeight>> packed;  // own these
};

struct LayerWeights {
  NormWeights attention_norm;
  LinearWeights qkv;                 // queries' rows, then keys', then values'
  NormWeights query_norm, key_norm;  // gain [head_dim], or of all heads; may be empty
  // [StackSpec::disentangled.num_rows(), num_heads * head_dim], what distances stand for against
  // queries and against keys (RelativePositions); may be empty.
  Tensor position_keys, position_queries;
  LinearWeights attention_output;
  NormWeights cross_norm;
  LinearWeights cross_query, cross_key_value, cross_output;
  NormWeights feed_forward_norm;
  LinearWeights feed_forward_in, feed_forward_out;
  ExpertWeights experts;  // instead of these two; without a router: none
  NormWeights attention_output_norm, feed_forward_output_norm;
};

// The tables of a rank have a part of the columns. A stage has its layers; what stands before the
// first layer of the stack, or behind the last, has the stage that has this layer.
struct StackWeights {
  Tensor token_table;  // [vocab_size, hidden_size]
  // [position_offset + max_positions, and what is unused behind them, hidden_size]; may be empty
  Tensor position_table;
  Tensor type_table;  // [num_types, hidden_size]; may be empty
  // cos_sin is empty where positions are not kRotary, or no layer is kLocal; every rank has all.
  Rotary rotary, local_rotary;
  // [num_heads, 2 * max_distance + 1] by key - query, float32; empty where scores have no biases.
  Tensor position_bias;
  Tensor alibi_slopes;  // [num_heads] float32; may be empty
  // RelativePositions::rows and max_distance; null without disentangled attention.
  const int32_t* distance_rows = nullptr;
  int32_t max_distance = 0;
  LinearWeights convolution;  // behind the first layer; may be empty
  NormWeights convolution_norm;
  NormWeights embedding_norm;
  LinearWeights projection;  // of embeddings, [hidden_size, projected_size]; may be empty
  // Post-norm: what the layer before the first one here leaves to be applied; empty where there is
  // none.
  NormWeights entry_norm;
  std::vector<std::shared_ptr<const LayerWeights>> layers;  // one may stand for several
  NormWeights final_norm;
  LinearWeights output_projection;  // [projected_size, hidden_size]; may be empty
};

struct TransformerWeights {
  std::optional<StackWeights> encoder;
  std::optional<StackWeights> decoder;
  LinearWeights head;

  std::vector<std::unique_ptr<Buffer>> buffers;  // own every Tensor above
  int64_t num_parameters = 0;                    // of the whole
  int64_t bytes = 0;
};

// Reads everything that `spec` names. Matrices get the types that `types` says;
// tables, gains and biases get the backend's activation type for that. INVALID_ARGUMENT naming the
// tensor, with both shapes where they differ, and naming the tensors that neither the spec uses nor
// its ignored_tensors lists. `spec`: of the whole. A rank reads its shard: the rows of queries,
// keys, values, feed_forward_in and the head, the columns of what their outputs go into and of the
// tables. Biases of products that the ranks add up are the first rank's alone; norms are
// everyone's. Of what other stages hold names and shapes are checked, and nothing is read.
absl::StatusOr<TransformerWeights> LoadWeights(const TransformerSpec& spec, const Stage& stage,
                                               const Shard& shard, const Checkpoint& checkpoint,
                                               const ModelTypes& types, Backend& backend);

}  // namespace beamline
