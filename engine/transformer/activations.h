// Every buffer that a forward pass writes, allocated once for the largest batch.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Rows of logits are whole tiles of a matrix product (MatMulParams::y_owns_padding).
inline constexpr int64_t kLogitsPadding = 64;

// T = max_batch_tokens, R = max_logits_rows, H = head_rows(), S = max_sequences; widths are the
// larger of encoder and decoder, which never run at the same time. A step views the part that it
// needs.
struct ActivationTensors {
  Tensor hidden;  // [T, hidden_size], the residual stream
  // [T, hidden_size], what a branch reads of it behind a norm; a rank's columns of embeddings, of
  // projected_size too.
  Tensor normed;
  Tensor query;     // [T, num_heads * head_dim]
  Tensor attended;  // as query
  // [T, (num_heads + 2 * num_kv_heads) * head_dim]: of ProjectHeads; an encoder's queries, keys and
  // values.
  Tensor workspace;
  // [T, num_kv_heads * head_dim], where an encoder does something to queries and keys
  // (StackSpec::edits_heads).
  Tensor key, value;
  // [T, projected_size], where embeddings are projected; the last hidden states where these are.
  Tensor embedded;
  // [T, hidden_size * kernel_size], where an encoder has a convolution: what it multiplies.
  Tensor unfolded;
  Tensor inner;  // [T, feed_forward_size]
  // Where layers have experts, of which a row goes through num_chosen.
  Tensor router;          // [T, router_size()] float32
  Tensor shared;          // [T, hidden_size], where all rows go through one of them
  Tensor expert_inner;    // [T * num_chosen, inner size of an expert]
  Tensor expert_outputs;  // [T * num_chosen, hidden_size]
  Tensor branch;          // as hidden, where a stack keeps its branches (StackSpec::keeps_branches)
  // Of the stage that has the last layer.
  Tensor selected;  // [R, hidden_size]; decoders: the rows whose logits are wanted
  Tensor logits;    // [H, vocab_size] float32, rows padded to whole tiles; decoders
  Tensor pooled;    // [S, hidden_size] float32; encoders alone
  // Where an input may be longer than a step, of L = max_input_tokens (long_input.h): its residual
  // stream, [L, hidden_size], and the keys and values of one layer, [blocks of L positions,
  // num_kv_heads, block_size, head_dim], as rows of head_dim.
  Tensor long_hidden, long_keys, long_values;
};

struct Activations : ActivationTensors {
  std::vector<std::unique_ptr<Buffer>> buffers;  // own every Tensor above
};

absl::StatusOr<Activations> PlanActivations(const TransformerSpec& spec, DType activation_dtype,
                                            const StepLimits& limits, Backend& backend);

// What PlanActivations takes.
int64_t ActivationBytes(const TransformerSpec& spec, DType activation_dtype,
                        const StepLimits& limits);

// The paged keys and values of every decoder layer; they hold the encoder's too.
struct KvCache {
  std::vector<KvLayer> layers;
  std::vector<std::unique_ptr<Buffer>> buffers;
};

absl::StatusOr<KvCache> AllocateKvCache(const StackSpec& decoder, DType cache_dtype,
                                        const StepLimits& limits, Backend& backend);

}  // namespace beamline
