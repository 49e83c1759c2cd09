// Data that describes a model family; the one forward pass executes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace beamline {

// - kSinusoidal, kShiftedSinusoidal: computed, not in the file; sines in the first half of the
//   columns, cosines in the second. sinusoidal_positions.h has the two kinds of frequencies.
// - kRotary: queries and keys are rotated, nothing is added to the embedding.
// - kRelative: scores of self-attention depend on distances, by biases or disentangled attention;
//   nothing is added to the embedding. kLearned stacks may use these in addition.
// - kAlibi: decoders only; a key's distance times the head's slope is subtracted from its score.
enum class PositionKind : uint8_t {
  kNone,
  kLearned,
  kSinusoidal,
  kShiftedSinusoidal,
  kRotary,
  kRelative,
  kAlibi
};
enum class NormPlacement : uint8_t { kPre, kPost };

// The angles that rotate queries and keys (rotary_table.h).
struct RotarySpec {
  // Radians per position for each pair of elements; twice as many elements of a head are rotated.
  std::vector<float> frequencies;
  // longrope: used for all positions of a sequence with more than original_positions tokens. Empty:
  // all sequences use the same angles.
  std::vector<float> long_frequencies;
  int32_t original_positions = 0;  // 0: all sequences use the same angles
  float scale = 1.0f;              // multiplies cosines and sines
  bool interleaved = false;        // a pair is two neighbours (GPT-J), not two elements half of the
                                   // rotated part apart

  // The table row of position 0 for a sequence of num_tokens tokens.
  int32_t first_row(int32_t num_tokens) const {
    return num_tokens > original_positions ? original_positions : 0;
  }
};

// Attention biases by distance, shared by all layers of a stack (relative_bias.h).
struct RelativeSpec {
  int32_t num_buckets = 0;
  int32_t max_distance = 0;  // all distances from here on share one bucket
  std::string table;         // [num_buckets, num_heads]
};
// Which angles a layer uses.
enum class LayerRotary : uint8_t { kMain, kLocal, kNone };

// A weight matrix by its names in the checkpoint; the parts are stacked along the output dimension.
struct LinearNames {
  std::vector<std::string> weights;
  std::vector<std::string> biases;  // empty: no bias; else one per weight
  bool transposed = false;          // stored as [in, out], as in GPT-2's Conv1D
  // Queries, keys and values are in one tensor, in groups of rows per key-value head: its queries,
  // its key, its value. There is one bias for all, or one for each of the three; an empty name
  // means zeros.
  bool grouped = false;
  int32_t kernel_size = 0;  // > 0: stored as [out, in / kernel_size, kernel_size], as in a
                            // convolution
};

struct NormNames {
  bool empty() const { return gain.empty() && !plain; }  // no norm

  std::string gain;
  std::string bias;     // empty: none
  float offset = 0.0f;  // added to the stored gain: Gemma stores gain - 1
  bool plain = false;   // no gain in the file: it is 1
};

// Disentangled attention: queries and keys are also multiplied by projected distance embeddings,
// which all layers share (RelativePositions, position_embeddings.h).
struct DisentangledSpec {
  bool empty() const { return table.empty(); }
  int32_t num_rows() const { return 2 * span; }

  std::string table;     // [num_rows(), hidden_size]
  NormNames table_norm;  // with the stack's epsilon; gain empty: none
  int32_t span = 0;      // rows on each side of distance 0
  // Whether long distances share rows on a logarithmic scale, up to max_distance.
  bool has_buckets = false;
  int32_t max_distance = 0;
};

// After the first layer: hidden = norm(hidden + activation(convolution(embeddings))).
struct ConvolutionSpec {
  int32_t kernel_size = 0;  // odd number of tokens around each one; 0: no convolution
  Activation activation = Activation::kTanh;
  LinearNames linear;  // [hidden_size, hidden_size * kernel_size]
  NormNames norm;
};

// Layers whose feed-forward is an MoE.
struct ExpertsSpec {
  int32_t num_experts = 0;  // 0: no MoE layers
  int32_t num_chosen = 0;   // experts per row
  int32_t inner_size = 0;
  int32_t shared_size = 0;   // FFN size of the shared expert; 0: none
  bool renormalize = false;  // as ExpertsParams
  std::vector<bool> layers;  // per layer of the whole stack, whether it is MoE; empty: all
};

// Tensor names of one layer; "{}" is replaced by the layer's index.
struct LayerNames {
  LinearNames qkv, attention_output;
  // Disentangled attention: projections that turn distance embeddings into keys and queries; empty:
  // none.
  LinearNames position_key, position_query;
  // Norm of each head before rotation, or of all heads together (StackSpec::norms_all_heads); gain
  // empty: none.
  NormNames query_norm, key_norm;
  NormNames attention_norm;
  LinearNames cross_query, cross_key_value, cross_output;  // decoders with an encoder
  NormNames cross_norm;
  LinearNames feed_forward_in, feed_forward_out;
  // Only for MoE layers; a second "{}" is replaced by the expert's index. The router's last row is
  // the gate of the shared expert.
  LinearNames router, expert_in, expert_out, shared_in, shared_out;
  NormNames feed_forward_norm;
  // Pre-norm: norm of a branch's output before it is added; gain empty: none.
  NormNames attention_output_norm, feed_forward_output_norm;
};

// One stack of layers: an encoder or a decoder.
struct StackSpec {
  // Whether this object has a part of the stack (or the whole of a stack without layers).
  bool is_here() const { return num_layers > 0 || (first_layer == 0 && layers_after == 0); }
  // Whether it also has what comes before the first layer (begins) or after the last (ends).
  bool begins() const { return is_here() && first_layer == 0; }
  bool ends() const { return is_here() && layers_after == 0; }
  // Whether a branch's output needs a buffer beside the residual stream before it is added.
  bool keeps_branches() const { return parallel || !layers.attention_output_norm.empty(); }
  // Whether queries or keys are changed between projection and attention.
  bool edits_heads() const {
    return positions == PositionKind::kRotary || !layers.query_norm.gain.empty() || head_clip > 0;
  }
  // Number of logits of a layer's router.
  int32_t router_size() const { return experts.num_experts + (experts.shared_size > 0 ? 1 : 0); }
  // Whether the feed-forward of a layer is MoE; `layer` counts in the whole stack.
  bool has_experts(int32_t layer) const {
    return experts.num_experts > 0 && (experts.layers.empty() || experts.layers[layer]);
  }
  // Rows of the position table that tokens may use.
  int32_t num_position_rows() const { return max_positions + rotary.original_positions; }
  // Columns of the embedding tables.
  int32_t embedding_size() const { return projected_size > 0 ? projected_size : hidden_size; }

  int32_t num_layers = 0;
  // For a stage's part of a stack (stage.h): the number of layers before and after its own.
  int32_t first_layer = 0;
  int32_t layers_after = 0;
  int32_t hidden_size = 0;
  int32_t projected_size = 0;  // width of embeddings that are projected to hidden_size; 0: not
                               // projected
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  bool norms_all_heads = false;  // query_norm and key_norm cover all heads together
  float head_clip = 0.0f;        // clips queries, keys and values: as ProjectHeadsParams::clip
  int32_t feed_forward_size = 0;
  ExpertsSpec experts;
  bool causal = false;
  bool cross_attention = false;
  float attention_scale = 1.0f;         // multiplies queries
  float attention_softcap = 0.0f;       // caps scores: softcap * tanh(score / softcap); 0: none
  bool scale_by_inverse_layer = false;  // also divides queries by the layer's number, from 1
  // Per layer of the whole stack, the number of keys that a query attends to: its own, those before
  // it and, if the stack is not causal, equally many after it; 0: all. Empty: all in every layer.
  std::vector<int32_t> attention_windows;

  NormKind norm = NormKind::kLayerNorm;
  NormPlacement placement = NormPlacement::kPost;
  bool parallel = false;        // pre-norm: a layer's feed-forward has the same input as its
                                // attention
  bool first_is_normed = true;  // pre-norm: whether the first layer's attention has a norm
  float norm_epsilon = 1e-5f;
  Activation activation = Activation::kGelu;
  bool gated = false;  // feed_forward_in has the gate's rows, then those of the up projection

  PositionKind positions = PositionKind::kNone;
  RotarySpec rotary, local_rotary;
  std::vector<LayerRotary> layer_rotary;  // per layer of the whole stack; empty: kMain in all
  RelativeSpec relative;
  DisentangledSpec disentangled;
  ConvolutionSpec convolution;
  std::vector<float> alibi_slopes;    // kAlibi: per head of the whole model
  float rounded_alibi_factor = 0.0f;  // as AttentionParams
  int32_t max_positions = 0;          // the longest sequence
  int32_t unused_positions = 0;  // rows of a learned position_table after those of max_positions
  int32_t position_offset = 0;   // rows of position_table before position 0: RoBERTa has 2
  // Tokens with this id use no position; they use the row before position 0. -1: all tokens count.
  int32_t padding_id = -1;
  int32_t vocab_size = 0;           // rows of token_table
  int32_t num_types = 0;            // rows of type_table
  float token_scale = 1.0f;         // multiplies token embeddings
  bool rounds_token_scale = false;  // round it to the activation type first
  float stream_scale = 1.0f;        // hidden states are stored multiplied by this (stream_scale.h)

  // Tensor names.
  std::string token_table;
  std::string position_table;    // learned positions
  std::string type_table;        // empty: none
  NormNames embedding_norm;      // norm of the embeddings (before a projection: of embedding_size);
                                 // gain empty: none
  LinearNames projection;        // [hidden_size, projected_size]; applied to normed embeddings
  bool norms_projected = false;  // the norm is applied after the projection instead
  // Whether rows of position_table, [.., hidden_size], are added after the projection.
  bool projects_tokens_alone = false;
  // [projected_size, hidden_size]; applied to a decoder's last hidden states before the head;
  // empty: none.
  LinearNames output_projection;
  NormNames final_norm;           // gain empty: none
  float final_norm_scale = 1.0f;  // multiplies its gain
  LayerNames layers;
  // Per layer of the whole stack, the text that replaces "{}" in its names. Layers with the same
  // text share their weights in memory. Empty: the layer's index.
  std::vector<std::string> layer_ids;
};

// A classifier's head (classifier_head.h): output(norm(activation(dense(h)))), where h are the
// pooled last hidden states of a text; token classification: the last hidden state of each token.
struct ClassifierSpec {
  bool per_token = false;
  Pooling pooling = Pooling::kCls;  // for texts
  LinearNames dense;                // [dense_size, hidden_size]; empty: none
  int32_t dense_size = 0;           // 0: hidden_size
  Activation activation = Activation::kTanh;
  NormNames norm;  // LayerNorm; gain empty: none
  float norm_epsilon = 1e-5f;
  LinearNames output;  // [num_labels, dense_size]
  int32_t num_labels = 0;
};

// The MLM head (mask_head.h): the logits of a token are output(norm(activation(dense(h)))) of its
// last hidden state h.
struct MaskHeadSpec {
  LinearNames dense;  // [embedding_size, hidden_size]
  Activation activation = Activation::kGelu;
  NormNames norm;
  float norm_epsilon = 1e-12f;
  LinearNames output;  // [vocab_size, embedding_size], usually the token embedding matrix
};

// A module applied to a text's pooled vector x (dense_head.h): activation(linear(x)).
struct DenseSpec {
  std::string folder;  // folder of its weights, below the model's
  int32_t in_size = 0, out_size = 0;
  bool biased = true;
  Activation activation = Activation::kTanh;
};

struct TransformerSpec {
  // Elements of the largest head.
  int32_t max_head_dim() const {
    return std::max(encoder.has_value() ? encoder->head_dim : 0,
                    decoder.has_value() ? decoder->head_dim : 0);
  }

  // Elements of the longest row that a norm processes.
  int32_t max_hidden_size() const {
    const auto of = [](const std::optional<StackSpec>& stack) {
      return stack.has_value() ? std::max(stack->hidden_size, stack->projected_size) : 0;
    };
    return std::max(of(encoder), of(decoder));
  }

  // Whether inputs may be computed in pieces, layer by layer (long_input.h). True for a causal
  // encoder-only model whose tokens use nothing of other tokens but keys and values.
  bool computes_in_pieces() const {
    return encoder.has_value() && !decoder.has_value() && encoder->causal &&
           encoder->num_layers > 0 && encoder->type_table.empty() &&
           encoder->disentangled.empty() && encoder->convolution.kernel_size == 0 &&
           encoder->output_projection.weights.empty();
  }

  std::string architecture;  // from config.json
  std::optional<StackSpec> encoder;
  std::optional<StackSpec> decoder;
  // Columns of the logits: the decoder's vocabulary; encoder-only: the encoder's.
  int32_t vocab_size = 0;
  // The LM head of a decoder: a matrix [vocab_size, hidden_size] and a bias [vocab_size].
  std::string head;
  std::string head_bias;        // empty: none
  float logits_softcap = 0.0f;  // as StackSpec::attention_softcap
  // Set for classifiers; its tensors are among the ignored ones.
  std::optional<ClassifierSpec> classifier;
  // Set for encoders that also fill masks; tensors of its own are among the ignored ones.
  std::optional<MaskHeadSpec> mask_head;
  // Hidden states exceed the range of float16; only norms read them (stream_scale.h).
  bool exceeds_float16 = false;
  // Every tensor of the checkpoint must be used or match one of these; * matches any characters.
  std::vector<std::string> ignored_tensors;
};

}  // namespace beamline
