// THE list of operators: everything that a transformer needs from a device, at fused granularity.
// Models call nothing else.
//
// Shapes stand in brackets; num_tokens counts the packed tokens of a ragged batch, which is never
// padded: sequence s owns rows offsets[s] .. offsets[s + 1]. Every pointer and Tensor is memory of
// the device unless the comment says "host".
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

// A norm that an operator applies on its way; an empty gain: none. As NormParams.
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
  const int32_t* type_ids = nullptr;   // [num_tokens], rows of type_table; null without one
  int64_t num_tokens = 0;
  Tensor token_table;        // [vocab_size, hidden_size]
  Tensor position_table;     // [max_positions, hidden_size]; may be empty
  Tensor type_table;         // [num_types, hidden_size]; may be empty
  float token_scale = 1.0f;  // multiplies the token row alone
  FusedNorm norm;
  Tensor output;  // [num_tokens, hidden_size]
};

// y = act(x W^T + bias), then * multiplied by the gate, capped, or + residual.
struct MatMulParams {
  Tensor x;  // [num_rows, in_features]
  // With a gain it is norm(x), rounded to x's type, that is multiplied, and `normed` receives it:
  // the residual of a later product. A device with few rows does that where it loads them.
  FusedNorm input_norm;
  Tensor normed;                         // as x; must not alias x, the residual or y
  const PackedWeight* weight = nullptr;  // [out_features, in_features]
  // [out_features], of x's type or of y's; may be empty. What lies behind it, up to its row_stride,
  // may be read: a device that computes whole tiles in place (y_owns_padding) then adds it on the
  // way.
  Tensor bias;
  Activation activation = Activation::kNone;
  // The weight holds the gate's rows first, then the up projection's; y = act(gate) * up has
  // out_features / 2 columns.
  bool gated = false;
  float softcap = 0.0f;  // > 0: softcap * tanh(y / softcap), before the residual; 0: none
  Tensor residual;       // as y, added last; may be empty; may alias y
  Tensor y;              // [num_rows, out_features]; must not alias x
  // The elements between the rows of y, up to its row_stride, belong to y and may be overwritten: a
  // device that is faster at whole tiles then writes odd output features in place.
  bool y_owns_padding = false;
};

// y = norm(x + residual) * gain + bias + addend over the last dimension; float32 accumulation.
struct NormParams {
  NormKind kind = NormKind::kLayerNorm;
  Tensor x;         // [num_rows, hidden_size]
  Tensor residual;  // as x; may be empty
  Tensor gain;      // [hidden_size]
  Tensor bias;      // [hidden_size]; may be empty
  float epsilon = 1e-5f;
  Tensor sum;     // as x: receives x + residual; may be empty; may alias x or residual
  Tensor addend;  // as x: added to what is normed; may be empty
  Tensor y;       // as x; may alias x or addend
};

// The most experts that a layer has, and that a row goes through.
inline constexpr int kMostExperts = 256;
inline constexpr int kMostChosenExperts = 32;

// A mixture of experts, each a gated feed-forward: y = sum of p_e * out_e(act(gate_e(x)) * up_e(x))
// over the num_chosen experts e of a row whose router_logits are the largest, ties by the lower
// expert, + sigmoid(s) * shared + residual. p = softmax(router_logits). Every row goes through all
// that it chose.
struct ExpertsParams {
  Tensor x;              // [num_rows, hidden_size]
  Tensor router_logits;  // [num_rows, num_experts] float32; with `shared` s in one column more
  int num_chosen = 0;
  bool renormalize = false;  // the chosen ones' p are divided by their sum
  // Host, [num_experts] of one shape each: [2 * inner_size, hidden_size], the gate's rows first,
  // then the up projection's; and [hidden_size, inner_size].
  std::span<const PackedWeight*const> in, out;
  Activation activation = Activation::kNone;
  // Workspaces, any content before and after.
  Tensor inner;     // [num_rows * num_chosen, inner_size]
  Tensor outputs;   // [num_rows * num_chosen, hidden_size]
  Tensor shared;    // as y: what an expert of all rows has computed; may be empty
  Tensor residual;  // as y, added last; may be empty; may alias y
  Tensor y;         // as x; must not alias x
};

// How the keys of a block lie in memory, those of each head by themselves.
enum class KeyLayout : uint8_t {
  kRows,     // [block_size, head_dim], as values
  kColumns,  // [head_dim, block_size]: neighbours are one dimension's of several positions
};

// One layer's paged keys and values, each at a multiple of 16 bytes, of the activations' type or,
// on a device that converts them (CheckOptions), of another. A position's slot is
// block * block_size + offset. What a block holds beyond its filled positions may be anything, NaN
// too, and is in no result.
struct KvLayer {
  Tensor keys;    // [num_blocks, num_kv_heads, block_size, head_dim], whatever their layout
  Tensor values;  // as keys
  KeyLayout key_layout = KeyLayout::kRows;  // Operators::key_layout of the device
};

// Rotary position embedding, the Llama (half-split) or GPT-J (interleaved) pairing.
struct Rotary {
  Tensor cos_sin;  // [max_positions, rotary_dim]: cos in the first half of the columns; float32
  bool interleaved = false;
};

// Queries, keys and values of a batch in one call: x W^T + bias, clipped, norms, rotary, query
// scaling, and the keys and values stored where attention will look for them. On a GPU one kernel
// does it all where its own products run (few rows: a decode step); cuBLASLt's products, which
// cannot scatter, go to the workspace, and a second kernel brings them to their places. So does the
// CPU.
struct ProjectHeadsParams {
  Tensor x;              // [num_tokens, hidden_size]
  FusedNorm input_norm;  // of x, as MatMulParams
  Tensor normed;         // as x; must not alias any of the others
  // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]: queries' rows, then keys', then
  // values'. A weight with only the queries' rows (num_kv_heads = 0) or only keys' and values'
  // (num_heads = 0) serves cross attention.
  const PackedWeight* weight = nullptr;
  Tensor bias;  // [out_features]; may be empty
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float clip = 0.0f;  // > 0: what is beyond -clip .. clip becomes the nearer of these; 0: none
  // Of each head of the queries, and of the keys, by itself, with gains [head_dim]; or of all heads
  // together, with gains [num_heads * head_dim] and [num_kv_heads * head_dim]. Not with clip.
  FusedNorm query_norm, key_norm;
  float query_scale = 1.0f;            // applied to the queries before the product with the keys
  const int32_t* positions = nullptr;  // [num_tokens], read with rotary only
  const Rotary* rotary = nullptr;
  Tensor query;  // [num_tokens, num_heads * head_dim]; empty when num_heads = 0
  // Where keys and values go: into the cache when `cache` is set, else packed into key and value.
  const KvLayer* cache = nullptr;
  const int32_t* slots = nullptr;  // [num_tokens]
  Tensor key;                      // [num_tokens, num_kv_heads * head_dim]
  Tensor value;                    // as key
  Tensor workspace;                // [num_tokens, out_features], any content before and after
};

// What disentangled attention (arXiv:2006.03654) adds to the product of a query and a key: query .
// keys[r] + queries[r] . key, where r = rows[key - query], the distance of their positions clamped
// to +-max_distance. Either matrix may be empty.
struct RelativePositions {
  bool empty() const { return keys.empty() && queries.empty(); }

  Tensor keys;                    // [num_rows, num_heads * head_dim]
  Tensor queries;                 // as keys
  const int32_t* rows = nullptr;  // [2 * max_distance + 1], each below num_rows
  int max_distance = 0;
};

// softmax(scale * Q K^T + bias) V for a ragged batch. Queries, keys and values may be columns of
// one matrix: a product with the weights of all three is read where it lies.
struct AttentionParams {
  Tensor query;        // [num_tokens, num_heads * head_dim]
  float scale = 1.0f;  // > 0; 1 for queries that ProjectHeads has scaled
  // > 0: scores are softcap * tanh(score / softcap), before biases; 0: none
  float softcap = 0.0f;
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;
  int num_sequences = 0;
  const int32_t* query_offsets = nullptr;  // [num_sequences + 1], rows of query
  int max_query_length = 0;
  // Either packed keys and values with the queries' own offsets (an encoder's self attention) ...
  Tensor key;    // [num_tokens, num_kv_heads * head_dim]
  Tensor value;  // as key
  // ... or paged ones: sequence s reads positions 0 .. context_lengths[s] - 1 through its block
  // table row. REQUIRES: the call right before this one writes no table, no length, and of the
  // cache only the positions of the sequences' own query rows, as ProjectHeads does.
  const KvLayer* cache = nullptr;
  const int32_t* block_tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
  const int32_t* context_lengths = nullptr;  // [num_sequences]
  int max_context_length = 0;
  // The last query of a sequence sees all of its keys; with `causal` each earlier one sees one
  // fewer.
  bool causal = false;
  // Of these keys a query sees those at a distance below it, with `causal` the last so many; 0:
  // all.
  int window = 0;
  const float* alibi_slopes = nullptr;  // [num_heads]; adds -slope * distance
  // > 0: instead adds it times the slope times the key's position, of which the slope, the position
  // and their product are each rounded to bfloat16; 0: not so
  float rounded_alibi_factor = 0.0f;
  Tensor position_bias;  // [num_heads, 2 * max_distance + 1] by key - query, clamped; may be empty
  // Of packed keys of as many heads as queries have; added before the scale.
  RelativePositions relative;
  Tensor output;  // [num_tokens, num_heads * head_dim]
};

// output[i] = input[rows[i]].
struct GatherRowsParams {
  Tensor input;                   // [num_input_rows, width]
  const int32_t* rows = nullptr;  // [num_rows]
  Tensor output;                  // [num_rows, width], of the input's type
};

// Of each token what a convolution over its sequence multiplies: output[i][c * kernel_size + t] =
// input[i + t - kernel_size / 2][c], or 0 where that is no token of its sequence.
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
  bool normalize = false;            // to unit L2 norm (a zero vector stays zero)
  Tensor hidden;                     // [num_tokens, hidden_size]
  const int32_t* offsets = nullptr;  // [num_sequences + 1]
  int num_sequences = 0;
  Tensor output;  // [num_sequences, hidden_size] float32
};

// Edits to the scores of one row before a token is chosen, with the arithmetic of Hugging Face's
// logits processors. Host memory, read before the call returns.
struct LogitsEdits {
  struct Penalty {  // a token seen in the history
    int32_t id;
    int32_t prompt_or_output_count;  // > 0; repetition penalty applies to every entry
    int32_t output_count;            // presence and frequency count these alone
  };
  struct Bias {
    int32_t id;
    float value;  // added; -infinity bans
  };
  float repetition_penalty = 1.0f;  // score < 0 ? score * p : score / p
  float presence_penalty = 0.0f;    // subtracted once when output_count > 0
  float frequency_penalty = 0.0f;   // subtracted output_count times
  std::vector<Penalty> penalties;
  std::vector<Bias> biases;  // after the penalties
  int32_t forced_id = -1;    // >= 0: this id gets score 0, every other -infinity
  bool empty() const { return penalties.empty() && biases.empty() && forced_id < 0; }
};

// Whether a row's logits become log-probabilities before its edits.
inline constexpr uint8_t kEditLogits = 0;
inline constexpr uint8_t kNormalizeFirst = 1;
inline constexpr uint8_t kNormalizeInPlace = 2;  // and the row holds what they become

// The most candidates that a row may ask for.
inline constexpr int32_t kMaxCandidates = 2047;

// The best tokens of each row.
// Beam search (normalize_first): s = log_softmax(logits), edited, not normalised again.
// Otherwise: s = the edited logits.
struct TopCandidatesParams {
  // [num_rows, vocab_size] float32. Afterwards a row holds its s, where Sample reads them; with
  // kNormalizeFirst it may hold anything.
  Tensor logits;
  std::span<const LogitsEdits* const> edits;  // host, [num_rows]; null entries or empty: none
  std::span<const uint8_t> normalize_first;   // host, [num_rows]; empty: kEditLogits
  std::span<const int32_t> counts;            // host, [num_rows], how many to find, 1 .. max_count
  int max_count = 0;
  // [num_rows, max_count], descending; ties by the lower id. Where normalising rounds two logits to
  // one s, a device may keep the higher logit instead when only one of them fits in.
  float* values = nullptr;
  int32_t* ids = nullptr;  // [num_rows, max_count]
  // log(sum(exp(logits))) of the row before its edits: logit - log_normalizer is the model's own
  // log-probability.
  float* log_normalizers = nullptr;  // [num_rows]
  // The unedited logit of each candidate.
  float* raw_values = nullptr;  // [num_rows, max_count]
  // [num_rows]; null: each row is whole. Rows that are the columns of one rank
  // (kernels/communicator.h) are normalised by these, the log_normalizers of the whole rows, which
  // then are what log_normalizers receives. Of devices that have a communicator.
  const float* whole_normalizers = nullptr;
};

// One draw from the edited logits of a row.
struct SampleRow {
  int32_t row = 0;
  float temperature = 1.0f;  // > 0
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  float typical_p = 1.0f;    // 1: off
  // The draw is a pure function of these (Philox4x32-10), so a request repeats alone and in any
  // batch.
  uint64_t seed = 0;
  uint32_t sequence = 0;
  uint32_t position = 0;
};

struct SampleParams {
  Tensor logits;                    // [num_rows, vocab_size] float32, already edited; left as it is
  std::span<const SampleRow> rows;  // host
  int32_t* ids = nullptr;           // [rows.size()]
  float* values = nullptr;          // [rows.size()], the edited logit of each draw
};

// A token that the device itself chose: word `source` of a read-back goes to token `target`.
struct TokenFill {
  int32_t source = 0;
  int32_t target = 0;
};

// token_ids[fill.target] = words[fill.source]; targets differ.
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

// The widest search that a backend advances.
inline constexpr int32_t kMaxBeams = 256;

// One beam search of a step. Its live beams' candidates are `num_rows` rows from `first_row` on.
struct BeamSearch {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t width = 0;  // beams to go on with, num_rows .. kMaxBeams
  // Sums of the live beams' scores, [num_rows]: host values, or, when there are none, the words
  // from score_word on.
  std::span<const float> scores;
  int32_t score_word = 0;
  std::span<const int32_t> end_ids;  // host; a beam that one of these ends does not go on
  bool renormalize = false;          // candidates count as their value - their row's normalizer
};

// Which beams go on: the best `width` candidates of a search's rows that no end_id is, by the
// beam's score + the candidate's value, ties by the lower row. A candidate of -infinity or NaN ends
// its row's list. Beams that are not found stand at min(their number, num_rows - 1), with token 0
// and score -infinity, and are never chosen over another.
struct AdvanceBeamsParams {
  // As TopCandidates left them.
  const float* values = nullptr;    // [num_rows, max_count], descending
  const int32_t* ids = nullptr;     // [num_rows, max_count]
  std::span<const int32_t> counts;  // host, [num_rows]
  int max_count = 0;
  const float* normalizers = nullptr;    // [num_rows]; of searches that renormalize
  std::span<const BeamSearch> searches;  // host
  const float* words = nullptr;          // where score_word looks
  // [beams of all searches], the searches one behind the other, the best beam first.
  int32_t* parents = nullptr;  // row of its search
  int32_t* tokens = nullptr;
  float* scores = nullptr;
};

// The block tables of one search's beams, one position a beam, before anybody has read which beams
// go on. The beams fill their blocks alike, and nobody else holds the block that is being filled.
struct BeamTables {
  int32_t first_row = 0;    // of block_tables
  int32_t first_token = 0;  // of slots
  int32_t num_rows = 0;
  int32_t parent_word = 0;  // of `words`, [num_rows], each below num_rows
  int32_t column = 0;       // of the block that the new position goes to
  int32_t num_filled = 0;   // positions that this block holds; 0: each row has its new one already
};

// Gives each row of a search its parent's blocks: those before `column` as they are, the one at
// `column` by AssignTails (kernels/beam_tails.h), with the filled positions copied.
struct ReorderBeamsParams {
  std::span<const BeamTables> groups;  // host
  const int32_t* words = nullptr;
  int32_t* block_tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
  int32_t* slots = nullptr;         // [num_tokens]; of groups with num_filled > 0: set
  std::span<const KvLayer> layers;  // host
  // What block_tables holds, as the host knows it; may be empty.
  std::span<const int32_t> host_tables;
  // As FillTokens' of the same words; may be empty.
  std::span<const TokenFill> fills;  // host
  int32_t* token_ids = nullptr;
};

// An operator's call: which one, and with what.
using Operation =
    std::variant<const EmbedParams*, const MatMulParams*, const NormParams*,
                 const ProjectHeadsParams*, const AttentionParams*, const GatherRowsParams*,
                 const FillTokensParams*, const PoolParams*, const CopyBlocksParams*,
                 const TopCandidatesParams*, const SampleParams*, const AdvanceBeamsParams*,
                 const ReorderBeamsParams*, const ExpertsParams*, const UnfoldParams*>;

// What is checked of an operation's arguments beyond their shapes.
struct CheckOptions {
  bool float32_only = false;                // activations are float32 whatever the weights are
  bool host_readable = false;               // index arrays lie in host memory and are checked too
  bool converts_cache = false;              // the cache has a floating-point type of its own
  KeyLayout key_layout = KeyLayout::kRows;  // of every cache
};

// The operators of one device. They run in call order; on an asynchronous device they return before
// the work is done, and a fault is sticky: Synchronize() and CopyToHost() return it. One thread
// calls at a time. Arguments that break an operator's contract are programmer errors and CHECK, the
// same way on every device.
class Operators {
 public:
  explicit Operators(const CheckOptions& options) : check_options_(options) {}
  virtual ~Operators() = default;

  // How the keys of a cache lie that operators are given.
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

  // The operation that the variant holds.
  void Run(const Operation& operation);

 private:
  // Of arguments that were checked.
  virtual void Compute(const Operation& operation) = 0;

  CheckOptions check_options_;
};

}  // namespace beamline
