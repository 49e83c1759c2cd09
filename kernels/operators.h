// All operators: everything that a transformer needs from a device, at fused granularity. Models
// call nothing else.
//
// Shapes are in brackets, row-major. num_tokens counts the packed tokens of a ragged batch, which
// is never padded: sequence s has rows offsets[s] .. offsets[s + 1] - 1. Every pointer and Tensor
// is device memory unless the comment says "host".
//
// Long because it is the whole list, every operator with its shapes and its contract.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "kernels/compute_device.h"
#include "kernels/tensor.h"

namespace beamline {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu, kTanh };

enum class NormKind : uint8_t { kLayerNorm, kRmsNorm };

// A norm fused into another operator; empty gain: none. Fields as in NormParams.
struct FusedNorm {
  NormKind kind = NormKind::kLayerNorm;
  Tensor gain;  // [hidden_size]
  Tensor bias;  // [hidden_size]; may be empty
  float epsilon = 1e-5f;
};

// output = norm(token * token_scale + type + position).
struct EmbedParams {
  const int32_t* token_ids = nullptr;  // [num_tokens]
  const int32_t* positions = nullptr;  // [num_tokens], rows of position_table
  const int32_t* type_ids = nullptr;   // [num_tokens], rows of type_table; null without type_table
  int64_t num_tokens = 0;
  Tensor token_table;        // [vocab_size, hidden_size]
  Tensor position_table;     // [max_positions, hidden_size]; may be empty
  Tensor type_table;         // [num_types, hidden_size]; may be empty
  float token_scale = 1.0f;  // scales the token row only
  FusedNorm norm;
  Tensor output;  // [num_tokens, hidden_size]
};

// y = act(x W^T + bias), then * up (gated), softcap, + residual, in this order.
struct MatMulParams {
  Tensor x;  // [num_rows, in_features]
  // With a gain, the product is of norm(x), rounded to x's type. `normed` receives norm(x), as the
  // residual of a later product. For few rows a device fuses the norm into the product's loads.
  FusedNorm input_norm;
  Tensor normed;                         // as x; must not alias x, the residual or y
  const PackedWeight* weight = nullptr;  // [out_features, in_features]
  // [out_features], of x's type or of y's; may be empty. Elements between out_features and
  // row_stride may be read: a device that writes whole tiles (y_owns_padding) then adds the bias in
  // the same pass.
  Tensor bias;
  Activation activation = Activation::kNone;
  // The weight has the rows of the gate first, then those of the up projection. y = act(gate) * up
  // has out_features / 2 columns.
  bool gated = false;
  float softcap = 0.0f;  // > 0: softcap * tanh(y / softcap), before the residual; 0: none
  Tensor residual;       // as y, added last; may be empty; may alias y
  Tensor y;              // [num_rows, out_features]; must not alias x
  // The elements after the last column of a row, up to row_stride, belong to y and may be
  // overwritten. A device whose kernels prefer whole tiles then writes odd output features in
  // place.
  bool y_owns_padding = false;
};

// y = norm(x + residual) * gain + bias + addend, over the last dimension, with float32
// accumulation.
struct NormParams {
  NormKind kind = NormKind::kLayerNorm;
  Tensor x;         // [num_rows, hidden_size]
  Tensor residual;  // as x; may be empty
  Tensor gain;      // [hidden_size]
  Tensor bias;      // [hidden_size]; may be empty
  float epsilon = 1e-5f;
  Tensor sum;     // as x: receives x + residual; may be empty; may alias x or residual
  Tensor addend;  // as x: added after the norm; may be empty
  Tensor y;       // as x; may alias x or addend
};

// Limits of the experts of a layer, and of the experts chosen for a row.
inline constexpr int kMostExperts = 256;
inline constexpr int kMostChosenExperts = 32;

// Mixture of experts (MoE) with gated feed-forward experts. y = sum of p_e * out_e(act(gate_e(x)) *
// up_e(x)) over the chosen experts e, + sigmoid(s) * shared + residual, with p =
// softmax(router_logits). The chosen experts of a row are the num_chosen with the largest
// router_logits; ties go to the lower index. No row is dropped.
struct ExpertsParams {
  Tensor x;              // [num_rows, hidden_size]
  Tensor router_logits;  // [num_rows, num_experts] float32; with `shared` one more column: s
  int num_chosen = 0;
  bool renormalize = false;  // divide the chosen experts' p by their sum
  // Host, [num_experts], equal shapes. in: [2 * inner_size, hidden_size], the rows of the gate
  // first, then those of the up projection. out: [hidden_size, inner_size].
  std::span<const PackedWeight*const> in, out;
  Activation activation = Activation::kNone;
  // Workspaces, with any content before and after.
  Tensor inner;     // [num_rows * num_chosen, inner_size]
  Tensor outputs;   // [num_rows * num_chosen, hidden_size]
  Tensor shared;    // as y: output of the shared expert, before sigmoid(s); may be empty
  Tensor residual;  // as y, added last; may be empty; may alias y
  Tensor y;         // as x; must not alias x
};

// Memory layout of a block's keys, for each head separately.
enum class KeyLayout : uint8_t {
  kRows,     // [block_size, head_dim], like values
  kColumns,  // [head_dim, block_size]: one dimension of several positions is contiguous
};

// Paged keys and values of one layer. Both are aligned to 16 bytes. Their type is that of the
// activations, or another one on a device that converts it (CheckOptions). The slot of a position
// is block * block_size + offset. A block's positions that are not filled may hold anything,
// including NaN, and affect no result.
struct KvLayer {
  Tensor keys;    // [num_blocks, num_kv_heads, block_size, head_dim], for either key_layout
  Tensor values;  // as keys
  KeyLayout key_layout = KeyLayout::kRows;  // the device's Operators::key_layout
};

// Rotary position embedding, with Llama's (half-split) or GPT-J's (interleaved) pairing.
struct Rotary {
  Tensor cos_sin;  // [max_positions, rotary_dim] float32: first half cos, second half sin
  bool interleaved = false;
};

// Queries, keys and values of a batch in one call: x W^T + bias, clip, norms, rotary, query scale,
// and storage of keys and values where attention reads them. On a GPU this is one kernel where our
// own products run (few rows: a decode step). Otherwise the product goes to the workspace, as
// cuBLASLt cannot scatter, and a second kernel moves it. The CPU always does the latter.
struct ProjectHeadsParams {
  Tensor x;              // [num_tokens, hidden_size]
  FusedNorm input_norm;  // of x, as in MatMulParams
  Tensor normed;         // as x; must not alias any other tensor here
  // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]: rows of queries, then keys, then
  // values. For cross attention the weight has only queries (num_kv_heads = 0) or only keys and
  // values (num_heads = 0).
  const PackedWeight* weight = nullptr;
  Tensor bias;  // [out_features]; may be empty
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float clip = 0.0f;  // > 0: clamps to [-clip, clip]; 0: none
  // Norms of the queries and of the keys. Per head with gains [head_dim]; or over all heads with
  // gains [num_heads * head_dim] and [num_kv_heads * head_dim]. Not together with clip.
  FusedNorm query_norm, key_norm;
  float query_scale = 1.0f;            // multiplies the queries
  const int32_t* positions = nullptr;  // [num_tokens], used with rotary only
  const Rotary* rotary = nullptr;
  Tensor query;  // [num_tokens, num_heads * head_dim]; empty when num_heads = 0
  // Keys and values go to `cache` if it is set, otherwise packed to `key` and `value`.
  const KvLayer* cache = nullptr;
  const int32_t* slots = nullptr;  // [num_tokens], of `cache`
  Tensor key;                      // [num_tokens, num_kv_heads * head_dim]
  Tensor value;                    // as key
  Tensor workspace;                // [num_tokens, out_features], with any content before and after
};

// Position terms of disentangled attention (arXiv:2006.03654). They add query . keys[r] +
// queries[r] . key to the product of a query and a key. r = rows[key - query], with the distance of
// positions clamped to +-max_distance. Either matrix may be empty.
struct RelativePositions {
  bool empty() const { return keys.empty() && queries.empty(); }

  Tensor keys;                    // [num_rows, num_heads * head_dim]
  Tensor queries;                 // as keys
  const int32_t* rows = nullptr;  // [2 * max_distance + 1], each in [0, num_rows)
  int max_distance = 0;
};

// softmax(scale * Q K^T + bias) V for a ragged batch. Queries, keys and values may be columns of
// one matrix, so that a product with all three weights is read in place.
struct AttentionParams {
  Tensor query;        // [num_tokens, num_heads * head_dim]
  float scale = 1.0f;  // > 0; 1 if ProjectHeads has scaled the queries
  // > 0: scores become softcap * tanh(score / softcap), before biases; 0: none
  float softcap = 0.0f;
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;
  int num_sequences = 0;
  const int32_t* query_offsets = nullptr;  // [num_sequences + 1], rows of query
  int max_query_length = 0;
  // Either packed keys and values with the offsets of the queries (an encoder's self-attention) ...
  Tensor key;    // [num_tokens, num_kv_heads * head_dim]
  Tensor value;  // as key
  // ... or paged ones: sequence s reads positions 0 .. context_lengths[s] - 1 through its row of
  // the block table. REQUIRES: the previous call writes no block table and no length. In the cache
  // it writes only positions of the sequences' own query rows, as ProjectHeads does.
  const KvLayer* cache = nullptr;
  const int32_t* block_tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
  const int32_t* context_lengths = nullptr;  // [num_sequences]
  int max_context_length = 0;
  // The last query of a sequence sees all of its keys. With `causal`, each earlier query sees one
  // fewer.
  bool causal = false;
  // Restricts these keys to distances below `window`; with `causal`, to the last `window` keys. 0:
  // no restriction.
  int window = 0;
  const float* alibi_slopes = nullptr;  // [num_heads]; adds -slope * distance
  // > 0: adds rounded_alibi_factor * slope * the key's position instead. The slope, the position
  // and their product are each rounded to bfloat16. 0: off.
  float rounded_alibi_factor = 0.0f;
  Tensor position_bias;  // [num_heads, 2 * max_distance + 1] by key - query, clamped; may be empty
  // Added before the scale. Only with packed keys and num_kv_heads = num_heads.
  RelativePositions relative;
  Tensor output;  // [num_tokens, num_heads * head_dim]
};

// output[i] = input[rows[i]].
struct GatherRowsParams {
  Tensor input;                   // [num_input_rows, width]
  const int32_t* rows = nullptr;  // [num_rows]
  Tensor output;                  // [num_rows, width], of the input's type
};

// For a convolution over each sequence: gathers the inputs of each token. output[i][c * kernel_size
// + t] = input[i + t - kernel_size / 2][c], or 0 outside of the token's sequence.
struct UnfoldParams {
  Tensor input;                      // [num_tokens, width]
  const int32_t* offsets = nullptr;  // [num_sequences + 1], rows of input
  int num_sequences = 0;
  int kernel_size = 0;  // odd
  Tensor output;        // [num_tokens, width * kernel_size], of the input's type
};

enum class Pooling : uint8_t { kMean, kCls, kLast, kMax, kMeanSqrtLength };

struct PoolParams {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;            // to unit L2 norm; a zero vector stays zero
  Tensor hidden;                     // [num_tokens, hidden_size]
  const int32_t* offsets = nullptr;  // [num_sequences + 1]
  int num_sequences = 0;
  Tensor output;  // [num_sequences, hidden_size] float32
};

// Edits of one row's scores before a token is chosen (logits processors), with the arithmetic of
// Hugging Face transformers. Host memory, read before the call returns.
struct LogitsEdits {
  struct Penalty {  // for a token of the prompt or the output
    int32_t id;
    int32_t prompt_or_output_count;  // > 0; the repetition penalty applies to every entry
    int32_t output_count;            // the counts for presence and frequency penalties
  };
  struct Bias {
    int32_t id;
    float value;  // added; -infinity bans the token
  };
  float repetition_penalty = 1.0f;  // score < 0 ? score * p : score / p
  float presence_penalty = 0.0f;    // subtracted once when output_count > 0
  float frequency_penalty = 0.0f;   // subtracted output_count times
  std::vector<Penalty> penalties;
  std::vector<Bias> biases;  // applied after the penalties
  int32_t forced_id = -1;    // >= 0: this id gets score 0, all others -infinity
  bool empty() const { return penalties.empty() && biases.empty() && forced_id < 0; }
};

// Values of normalize_first: whether a row's logits become log-probabilities before its edits.
inline constexpr uint8_t kEditLogits = 0;
inline constexpr uint8_t kNormalizeFirst = 1;
inline constexpr uint8_t kNormalizeInPlace = 2;  // and the row holds the result afterwards

// Limit of candidates per row.
inline constexpr int32_t kMaxCandidates = 2047;

// The best tokens of each row by their scores s. Beam search (normalize_first): s =
// log_softmax(logits), then edited, not normalised again. Otherwise: s = the edited logits.
struct TopCandidatesParams {
  // [num_rows, vocab_size] float32. Receives s, which Sample reads. With kNormalizeFirst the
  // content is undefined afterwards.
  Tensor logits;
  std::span<const LogitsEdits* const> edits;  // host, [num_rows]; a null entry, or empty: no edits
  std::span<const uint8_t> normalize_first;   // host, [num_rows]; empty: kEditLogits
  std::span<const int32_t> counts;  // host, [num_rows], candidates to find, 1 .. max_count
  int max_count = 0;
  // [num_rows, max_count], descending; ties go to the lower id. If normalisation rounds two logits
  // to the same s and only one fits, a device may keep the one with the higher logit.
  float* values = nullptr;
  int32_t* ids = nullptr;  // [num_rows, max_count]
  // log(sum(exp(logits))) of the row before its edits. logit - log_normalizer is the model's own
  // log-probability.
  float* log_normalizers = nullptr;  // [num_rows]
  // The unedited logit of each candidate.
  float* raw_values = nullptr;  // [num_rows, max_count]
  // [num_rows]; null: rows are complete. If a row has only one rank's columns
  // (kernels/communicator.h), these are the log_normalizers of the complete rows. They are used for
  // normalisation, and log_normalizers receives them. Only on devices with a communicator.
  const float* whole_normalizers = nullptr;
};

// One sample from a row's edited logits.
struct SampleRow {
  int32_t row = 0;
  float temperature = 1.0f;  // > 0
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  float typical_p = 1.0f;    // 1: off
  // The sample is a pure function of these (Philox4x32-10). So a request gives the same result
  // alone and in any batch.
  uint64_t seed = 0;
  uint32_t sequence = 0;
  uint32_t position = 0;
};

struct SampleParams {
  Tensor logits;                    // [num_rows, vocab_size] float32, already edited; not changed
  std::span<const SampleRow> rows;  // host
  int32_t* ids = nullptr;           // [rows.size()]
  float* values = nullptr;          // [rows.size()], the edited logit of each sampled token
};

// A token that the device chose: word `source` of a read-back is copied to token `target`.
struct TokenFill {
  int32_t source = 0;
  int32_t target = 0;
};

// token_ids[fill.target] = words[fill.source]. Targets are distinct.
struct FillTokensParams {
  const int32_t* words = nullptr;
  std::span<const TokenFill> fills;  // host
  int32_t* token_ids = nullptr;
};

struct BlockCopy {
  int32_t source = 0;
  int32_t target = 0;
};

// Copies whole blocks of one layer's keys and values. Copies do not overlap.
struct CopyBlocksParams {
  KvLayer layer;
  std::span<const BlockCopy> copies;  // host
};

// Limit of a search's beams.
inline constexpr int32_t kMaxBeams = 256;

// One beam search of a step. Its live beams are the `num_rows` rows of candidates from `first_row`.
struct BeamSearch {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t width = 0;  // number of new beams, num_rows .. kMaxBeams
  // Cumulative scores of the live beams, [num_rows]: host values or, if empty, the words from
  // score_word on.
  std::span<const float> scores;
  int32_t score_word = 0;
  std::span<const int32_t> end_ids;  // host; a candidate with one of these ends its beam
  bool renormalize = false;          // a candidate's score is its value - its row's normalizer
};

// Chooses the beams that continue: the best `width` candidates of a search that are no end_id, by
// the beam's score + the candidate's value; ties go to the lower row. A row's list ends at a
// candidate of -infinity or NaN. Missing beams get parent min(index, num_rows - 1), token 0 and
// score -infinity, and are never chosen over another.
struct AdvanceBeamsParams {
  // As TopCandidates wrote them.
  const float* values = nullptr;    // [num_rows, max_count], descending
  const int32_t* ids = nullptr;     // [num_rows, max_count]
  std::span<const int32_t> counts;  // host, [num_rows]
  int max_count = 0;
  const float* normalizers = nullptr;    // [num_rows]; for searches with renormalize
  std::span<const BeamSearch> searches;  // host
  const float* words = nullptr;          // source of score_word
  // [total width of all searches], search after search, the best beam first.
  int32_t* parents = nullptr;  // row within its search
  int32_t* tokens = nullptr;
  float* scores = nullptr;
};

// Block tables of the beams of one search, one position per beam, before the host knows the chosen
// beams. All beams have filled the same number of positions, and no other sequence holds the blocks
// that are being filled.
struct BeamTables {
  int32_t first_row = 0;    // in block_tables
  int32_t first_token = 0;  // in slots
  int32_t num_rows = 0;
  int32_t parent_word = 0;  // in `words`: the parents, [num_rows], each in [0, num_rows)
  int32_t column = 0;       // of the block for the new position
  // Filled positions of this block; 0: each row already has its own new block.
  int32_t num_filled = 0;
};

// Gives each row of a search its parent's blocks. Blocks before `column` are shared. The one at
// `column` is assigned by AssignTails (kernels/beam_tails.h), with copies of the filled positions.
struct ReorderBeamsParams {
  std::span<const BeamTables> groups;  // host
  const int32_t* words = nullptr;
  int32_t* block_tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
  int32_t* slots = nullptr;         // [num_tokens]; set for groups with num_filled > 0
  std::span<const KvLayer> layers;  // host
  // The contents of block_tables as the host knows them; may be empty.
  std::span<const int32_t> host_tables;
  // As in FillTokens, with the same words; may be empty.
  std::span<const TokenFill> fills;  // host
  int32_t* token_ids = nullptr;
};

// An operator with its arguments.
using Operation =
    std::variant<const EmbedParams*, const MatMulParams*, const NormParams*,
                 const ProjectHeadsParams*, const AttentionParams*, const GatherRowsParams*,
                 const FillTokensParams*, const PoolParams*, const CopyBlocksParams*,
                 const TopCandidatesParams*, const SampleParams*, const AdvanceBeamsParams*,
                 const ReorderBeamsParams*, const ExpertsParams*, const UnfoldParams*>;

// Checks of an operation's arguments that depend on the device.
struct CheckOptions {
  bool float32_only = false;    // activations are float32, whatever the weights' type
  bool host_readable = false;   // index arrays are in host memory; check their values too
  bool converts_cache = false;  // the cache may have a floating-point type of its own
  KeyLayout key_layout = KeyLayout::kRows;  // of every cache
};

// The operators of one device. They run in call order. On an asynchronous device they return before
// the work is done, and a fault is sticky: Synchronize() and CopyToHost() return it. One thread
// calls at a time. Arguments that break an operator's contract are programmer errors and CHECK, in
// the same way on every device.
class Operators {
 public:
  explicit Operators(const CheckOptions& options) : check_options_(options) {}
  virtual ~Operators() = default;

  // The layout of keys in all caches of this device.
  KeyLayout key_layout() const { return check_options_.key_layout; }

  void Embed(const EmbedParams& params) { Run(&params); }
  void MatMul(const MatMulParams& params) { Run(&params); }
  void Norm(const NormParams& params) { Run(&params); }
  void ProjectHeads(const ProjectHeadsParams& params) { Run(&params); }
  void Attention(const AttentionParams& params) { Run(&params); }
  void GatherRows(const GatherRowsParams& params) { Run(&params); }
  void FillTokens(const FillTokensParams& params) { Run(&params); }
  void Pool(const PoolParams& params) { Run(&params); }
  void CopyBlocks(const CopyBlocksParams& params) { Run(&params); }
  void TopCandidates(const TopCandidatesParams& params) { Run(&params); }
  void Sample(const SampleParams& params) { Run(&params); }
  void AdvanceBeams(const AdvanceBeamsParams& params) { Run(&params); }
  void ReorderBeams(const ReorderBeamsParams& params) { Run(&params); }
  void Experts(const ExpertsParams& params) { Run(&params); }
  void Unfold(const UnfoldParams& params) { Run(&params); }

  // Runs the operation in the variant.
  void Run(const Operation& operation);

 private:
  // The arguments have been checked.
  virtual void Compute(const Operation& operation) = 0;

  CheckOptions check_options_;
};

}  // namespace beamline
