// What a family is, as data: the description that the one forward pass executes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace beamline {

// kSinusoidal, kShiftedSinusoidal: sines in the first half of the columns, cosines in the second,
// not in the file, of the two frequencies that sinusoidal_positions.h has.
// kRotary: queries and keys are rotated, nothing is added to the embedding.
// kRelative: scores of self attention depend on distances, by biases or by disentangled attention,
// nothing is added to the embedding. They may besides kLearned, too.
// kAlibi: of decoders; a score loses its head's slope times the distance of its key.
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

// The angles by which queries and keys are rotated (rotary_table.h).
struct RotarySpec {
  // Of each pair of elements, radians a position; twice as many elements of a head are rotated.
  std::vector<float> frequencies;
  // longrope: those of every position of a sequence of more than original_positions tokens. Empty:
  // one set of angles for all sequences.
  std::vector<float> long_frequencies;
  int32_t original_positions = 0;  // 0: one set of angles
  float scale = 1.0f;              // multiplies cosines and sines
  bool interleaved = false;  // a pair is two neighbours (GPT-J), not two that are half of it apart

  // The row of position 0 in the table of angles, for a sequence of so many tokens.
  int32_t first_row(int32_t num_tokens) const {
    return num_tokens > original_positions ? original_positions : 0;
  }
};

// Biases of scores by distance, the same in every layer of a stack (relative_bias.h).
struct RelativeSpec {
  int32_t num_buckets = 0;
  int32_t max_distance = 0;  // from here on distances have one bucket
  std::string table;         // [num_buckets, num_heads]
};
// By which angles a layer rotates.
enum class LayerRotary : uint8_t { kMain, kLocal, kNone };

// A weight matrix as the checkpoint names it: the parts are stacked along the output dimension.
struct LinearNames {
  std::vector<std::string> weights;
  std::vector<std::string> biases;  // empty: no bias; else one per weight
  bool transposed = false;          // stored [in, out], as GPT-2's Conv1D does
  // Of queries, keys and values in one tensor: it has a key-value head's rows at a time, those of
  // its queries, its key's, its value's. Biases then are one for all, or one for each of the three,
  // whose name may be empty: of zeros.
  bool grouped = false;
  int32_t kernel_size = 0;  // > 0: stored [out, in / kernel_size, kernel_size], as a convolution's
};

struct NormNames {
  bool empty() const { return gain.empty() && !plain; }  // no norm

  std::string gain;
  std::string bias;     // empty: none
  float offset = 0.0f;  // added to the stored gain: Gemma's is what it has above 1
  bool plain = false;   // without a gain in the file: it is 1
};

// Disentangled attention: products of embeddings of distances, the same in all layers, stand
// against queries and keys (RelativePositions, position_embeddings.h).
struct DisentangledSpec {
  bool empty() const { return table.empty(); }
  int32_t num_rows() const { return 2 * span; }

  std::string table;     // [num_rows(), hidden_size]
  NormNames table_norm;  // with the stack's epsilon; gain empty: none
  int32_t span = 0;      // rows on either side of distance 0
  // Whether long distances share rows with those of about their logarithm, up to max_distance.
  bool has_buckets = false;
  int32_t max_distance = 0;
};

// Behind the first layer: hidden = norm(hidden + activation(convolution(embeddings))).
struct ConvolutionSpec {
  int32_t kernel_size = 0;  // tokens around each, odd; 0: no convolution
  Activation activation = Activation::kTanh;
  LinearNames linear;  // [hidden_size, hidden_size * kernel_size]
  NormNames norm;
};

// Layers whose feed-forward is a mixture of experts.
struct ExpertsSpec {
  int32_t num_experts = 0;  // 0: no layer's is
  int32_t num_chosen = 0;   // a row goes through so many of them
  int32_t inner_size = 0;
  int32_t shared_size = 0;   // inner features of an expert that all rows go through; 0: none
  bool renormalize = false;  // as ExpertsParams
  std::vector<bool> layers;  // of each layer of the whole stack, whether its is; empty: all are
};

// Names of one layer; "{}" stands for the layer's index.
struct LayerNames {
  LinearNames qkv, attention_output;
  // Disentangled attention: what the embeddings of distances are multiplied by to stand against
  // queries, and against keys; no names: nothing does.
  LinearNames position_key, position_query;
  // Of each head, before it is rotated, or of all of them (StackSpec::norms_all_heads); gain empty:
  // none.
  NormNames query_norm, key_norm;
  NormNames attention_norm;
  LinearNames cross_query, cross_key_value, cross_output;  // decoders with an encoder
  NormNames cross_norm;
  LinearNames feed_forward_in, feed_forward_out;
  // Of a layer with experts instead; a second "{}" stands for the expert's index.
  // The router has the share of the shared expert in a row of its own, behind those of the others.
  LinearNames router, expert_in, expert_out, shared_in, shared_out;
  NormNames feed_forward_norm;
  // Pre-norm: of what a branch has computed, before it is added; gain empty: none.
  NormNames attention_output_norm, feed_forward_output_norm;
};

// One stack of layers: an encoder or a decoder.
struct StackSpec {
  // Whether a part of the stack is here, be it that of a stack which has no layers.
  bool is_here() const { return num_layers > 0 || (first_layer == 0 && layers_after == 0); }
  // Whether what is before its first layer, or behind its last one, is here too.
  bool begins() const { return is_here() && first_layer == 0; }
  bool ends() const { return is_here() && layers_after == 0; }
  // Whether what a branch has computed lies beside the residual stream before it is added.
  bool keeps_branches() const { return parallel || !layers.attention_output_norm.empty(); }
  // Whether something is done to queries and keys between their product and attention.
  bool edits_heads() const {
    return positions == PositionKind::kRotary || !layers.query_norm.gain.empty() || head_clip > 0;
  }
  // Logits of a layer's router.
  int32_t router_size() const { return experts.num_experts + (experts.shared_size > 0 ? 1 : 0); }
  // Whether the feed-forward of a layer, counted in the whole stack, is a mixture of experts.
  bool has_experts(int32_t layer) const {
    return experts.num_experts > 0 && (experts.layers.empty() || experts.layers[layer]);
  }
  // Rows of the table of positions that tokens may name.
  int32_t num_position_rows() const { return max_positions + rotary.original_positions; }
  // Columns of the tables.
  int32_t embedding_size() const { return projected_size > 0 ? projected_size : hidden_size; }

  int32_t num_layers = 0;
  // Of a stage's part of a stack (stage.h): the layers before its own, and those behind them.
  int32_t first_layer = 0;
  int32_t layers_after = 0;
  int32_t hidden_size = 0;
  int32_t projected_size = 0;  // of embeddings that a product brings to hidden_size; 0: of none
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  bool norms_all_heads = false;  // query_norm and key_norm are of all heads together
  float head_clip = 0.0f;        // of queries, keys and values: as ProjectHeadsParams::clip
  int32_t feed_forward_size = 0;
  ExpertsSpec experts;
  bool causal = false;
  bool cross_attention = false;
  float attention_scale = 1.0f;         // multiplies queries
  float attention_softcap = 0.0f;       // of scores: softcap * tanh(score / softcap); 0: none
  bool scale_by_inverse_layer = false;  // and divides them by the layer's number, from 1
  // Of each layer of the whole stack, how many keys a query sees: its own and those before it, and
  // where the stack is not causal as many behind it; 0: all. Empty: all in every layer.
  std::vector<int32_t> attention_windows;

  NormKind norm = NormKind::kLayerNorm;
  NormPlacement placement = NormPlacement::kPost;
  bool parallel = false;        // pre-norm: a layer's feed-forward reads what its attention reads
  bool first_is_normed = true;  // pre-norm: whether the first layer's attention reads a norm
  float norm_epsilon = 1e-5f;
  Activation activation = Activation::kGelu;
  bool gated = false;  // feed_forward_in holds the gate's rows, then the up projection's

  PositionKind positions = PositionKind::kNone;
  RotarySpec rotary, local_rotary;
  std::vector<LayerRotary> layer_rotary;  // of each layer of the whole stack; empty: kMain in all
  RelativeSpec relative;
  DisentangledSpec disentangled;
  ConvolutionSpec convolution;
  std::vector<float> alibi_slopes;    // kAlibi: of each head of the whole
  float rounded_alibi_factor = 0.0f;  // as AttentionParams
  int32_t max_positions = 0;          // the longest sequence
  int32_t unused_positions = 0;  // rows of a learned position_table behind those of max_positions
  int32_t position_offset = 0;   // rows of position_table before position 0: RoBERTa has 2
  // Tokens of this id do not count as positions, and have the row before position 0; -1: all count.
  int32_t padding_id = -1;
  int32_t vocab_size = 0;           // rows of token_table
  int32_t num_types = 0;            // rows of type_table
  float token_scale = 1.0f;         // multiplies token embeddings
  bool rounds_token_scale = false;  // to the type of activations, before it multiplies
  float stream_scale = 1.0f;        // hidden states are stored times this (stream_scale.h)

  // Weight names.
  std::string token_table;
  std::string position_table;    // learned positions
  std::string type_table;        // empty: none
  NormNames embedding_norm;      // of embedding_size, or behind a projection; gain empty: none
  LinearNames projection;        // [hidden_size, projected_size]; of embeddings behind their norm
  bool norms_projected = false;  // the embeddings' norm is behind their projection instead
  // Whether rows of position_table, [.., hidden_size], are added behind the projection.
  bool projects_tokens_alone = false;
  // [projected_size, hidden_size]; of a decoder's last hidden states, which the head then reads; no
  // names: none.
  LinearNames output_projection;
  NormNames final_norm;           // gain empty: none
  float final_norm_scale = 1.0f;  // multiplies its gain
  LayerNames layers;
  // Of each layer of the whole stack, what stands for "{}" in its names: layers of one name are one
  // in memory. Empty: the layer's index.
  std::vector<std::string> layer_ids;
};

// The head of a classifier (classifier_head.h): output(norm(activation(dense(h)))) of the pooled
// last hidden states h of a text; of a classifier of tokens, of each of them.
struct ClassifierSpec {
  bool per_token = false;
  Pooling pooling = Pooling::kCls;  // of texts
  LinearNames dense;                // [dense_size, hidden_size]; without names: none
  int32_t dense_size = 0;           // 0: hidden_size
  Activation activation = Activation::kTanh;
  NormNames norm;  // LayerNorm; gain empty: none
  float norm_epsilon = 1e-5f;
  LinearNames output;  // [num_labels, dense_size]
  int32_t num_labels = 0;
};

// The head of a masked language model (mask_head.h): the logits of a token are
// output(norm(activation(dense(h)))) of its last hidden state h.
struct MaskHeadSpec {
  LinearNames dense;  // [embedding_size, hidden_size]
  Activation activation = Activation::kGelu;
  NormNames norm;
  float norm_epsilon = 1e-12f;
  LinearNames output;  // [vocab_size, embedding_size], mostly the table of tokens
};

// A module behind the pooled vector x of a text (dense_head.h): activation(linear(x)).
struct DenseSpec {
  std::string folder;  // of its weights, below the model's
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

  // Elements of the longest row that a norm meets.
  int32_t max_hidden_size() const {
    const auto of = [](const std::optional<StackSpec>& stack) {
      return stack.has_value() ? std::max(stack->hidden_size, stack->projected_size) : 0;
    };
    return std::max(of(encoder), of(decoder));
  }

  // Whether an input may be computed in pieces, layer by layer (long_input.h): of an encoder alone
  // whose tokens see none after them, and nothing of their neighbours but keys and values.
  bool computes_in_pieces() const {
    return encoder.has_value() && !decoder.has_value() && encoder->causal &&
           encoder->num_layers > 0 && encoder->type_table.empty() &&
           encoder->disentangled.empty() && encoder->convolution.kernel_size == 0 &&
           encoder->output_projection.weights.empty();
  }

  std::string architecture;  // of config.json
  std::optional<StackSpec> encoder;
  std::optional<StackSpec> decoder;
  // Columns of the logits: the decoder's vocabulary. Encoders alone: the encoder's.
  int32_t vocab_size = 0;
  // The output projection of a decoder: a matrix [vocab_size, hidden_size] and a bias [vocab_size].
  std::string head;
  std::string head_bias;        // empty: none
  float logits_softcap = 0.0f;  // as StackSpec::attention_softcap
  // Of an encoder whose answers are classes; its tensors are among the ignored ones.
  std::optional<ClassifierSpec> classifier;
  // Of an encoder that fills in masked tokens, too; its own tensors are among the ignored ones.
  std::optional<MaskHeadSpec> mask_head;
  // Hidden states, which norms alone read, are beyond the range of float16 (stream_scale.h).
  bool exceeds_float16 = false;
  // Every tensor of the checkpoint must be used or match one of these; * stands for any characters.
  std::vector<std::string> ignored_tensors;
};

}  // namespace beamline
