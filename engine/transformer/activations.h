// All buffers that a forward pass writes, allocated once for the largest batch.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Rows of logits are padded to whole GEMM tiles (MatMulParams::y_owns_padding).
inline constexpr int64_t kLogitsPadding = 64;

// T = max_batch_tokens, R = max_logits_rows, H = head_rows(), S = max_sequences. Widths are the
// larger of encoder and decoder, which never run at the same time. A step uses a part of each
// buffer.
struct ActivationTensors {
  Tensor hidden;  // [T, hidden_size], the residual stream
  // [T, hidden_size], the normed input of a branch. Also a rank's columns of embeddings, which may
  // have projected_size.
  Tensor normed;
  Tensor query;     // [T, num_heads * head_dim]
  Tensor attended;  // as query
  // [T, (num_heads + 2 * num_kv_heads) * head_dim]: workspace of ProjectHeads; an encoder's
  // queries, keys and values.
  Tensor workspace;
  // [T, num_kv_heads * head_dim], if an encoder changes queries and keys (StackSpec::edits_heads).
  Tensor key, value;
  // [T, projected_size], if embeddings are projected; also the last hidden states if these are.
  Tensor embedded;
  // [T, hidden_size * kernel_size], if an encoder has a convolution: its unfolded input.
  Tensor unfolded;
  Tensor inner;  // [T, feed_forward_size]
  // Only for layers with experts; each row goes through num_chosen of them.
  Tensor router;          // [T, router_size()] float32
  Tensor shared;          // [T, hidden_size], if there is a shared expert
  Tensor expert_inner;    // [T * num_chosen, inner size of an expert]
  Tensor expert_outputs;  // [T * num_chosen, hidden_size]
  Tensor branch;          // as hidden, if StackSpec::keeps_branches()
  // Only on the stage with the last layer.
  Tensor selected;  // [R, hidden_size]; decoders: the rows whose logits are needed
  Tensor logits;    // [H, vocab_size] float32, rows padded to whole tiles; decoders
  Tensor pooled;    // [S, hidden_size] float32; encoder-only models
  // If inputs may be longer than a step, with L = max_input_tokens (long_input.h): the residual
  // stream, [L, hidden_size], and the keys and values of one layer, [blocks of L positions,
  // num_kv_heads, block_size, head_dim], as rows of head_dim.
  Tensor long_hidden, long_keys, long_values;
};

struct Activations : ActivationTensors {
  std::vector<std::unique_ptr<Buffer>> buffers;  // own all tensors above
};

absl::StatusOr<Activations> PlanActivations(const TransformerSpec& spec, DType activation_dtype,
                                            const StepLimits& limits, Backend& backend);

// Bytes that PlanActivations allocates.
int64_t ActivationBytes(const TransformerSpec& spec, DType activation_dtype,
                        const StepLimits& limits);

// The paged keys and values of every decoder layer, including those of the encoder's output.
struct KvCache {
  std::vector<KvLayer> layers;
  std::vector<std::unique_ptr<Buffer>> buffers;
};

absl::StatusOr<KvCache> AllocateKvCache(const StackSpec& decoder, DType cache_dtype,
                                        const StepLimits& limits, Backend& backend);

}  // namespace beamline
