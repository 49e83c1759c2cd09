// Requests to the engine and their results, as plain structs. The engine knows no protobuf: server/
// converts. Fields have the names of the API (proto/beamline/v1/inference.proto), because error
// messages name them. Their ranges are in request_limits.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/token_charge.h"
#include "kernels/backend.h"

namespace beamline {

using Clock = std::chrono::steady_clock;
using TokenIds = std::vector<int32_t>;

// One message of a conversation.
struct ChatMessage {
  std::string role;
  std::optional<std::string> content;
  std::string members_json;  // its other members, a JSON object; may be empty

  bool operator==(const ChatMessage&) const = default;
};

// A conversation, which the checkpoint's chat template renders as text. The JSON texts may be
// empty.
struct Chat {
  std::vector<ChatMessage> messages;
  std::string tools_json;             // a list of objects
  std::string documents_json;         // a list of objects
  std::string template_options_json;  // an object: more variables of the template
  bool add_generation_prompt = true;
  std::string template_name;  // empty: the checkpoint's default

  bool operator==(const Chat&) const = default;
};

// Text in UTF-8, token ids taken as they are (nothing is added), or a conversation, whose rendered
// text already has its special tokens. For decoder-only models, a text without tokens becomes the
// BOS token. Only prompts to generate from or to score after may be conversations.
using Prompt = std::variant<std::string, TokenIds, Chat>;

// --- Generation ---------------------------------------------------------------------------------

struct GreedyOptions {};

struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;  // 0: off
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<uint64_t> seed;  // absent: drawn by the engine and reported in the result
  std::optional<int32_t> num_sequences;
};

enum class EarlyStopping : uint8_t { kEager, kHeuristic, kExhaustive };  // HF: True, False, "never"

struct BeamOptions {
  int32_t width = 4;
  std::optional<int32_t> num_sequences;  // 1 .. width
  std::optional<float> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  int32_t num_groups = 1;          // divides width; more than one: diverse beam search
  float diversity_penalty = 0.0f;  // per beam of an earlier group that chose the token
};

// monostate: generation_config.json decides, else greedy.
using Decoding = std::variant<std::monostate, GreedyOptions, SamplingOptions, BeamOptions>;

struct LimitOptions {
  std::optional<int32_t> max_new_tokens;  // absent: the model's default, at most what fits
  // Holds back end tokens, stop ids and stop texts. Absent: the model's default, which holds back
  // end tokens only.
  std::optional<int32_t> min_new_tokens;
  std::vector<std::string> stop;  // no empty strings; none given: the model's
  TokenIds stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;  // keep the matched stop string in the text
};

struct ShapingOptions {
  std::optional<float> repetition_penalty;  // 1: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::optional<int32_t> no_repeat_ngram_size;        // 0: off
  std::vector<std::pair<int32_t, float>> logit_bias;  // by id
  std::vector<Prompt> bad_words;                      // words that must not appear
  TokenIds suppress_tokens;
  std::optional<int32_t> forced_eos;  // the id forced at the length limit
};

struct OutputOptions {
  // Number of most likely tokens to report besides the chosen one.
  int32_t logprobs = 0;
  bool return_logprobs = false;  // report log-probabilities at all (logprobs = 0: only the chosen
                                 // token's)
  bool return_token_ids = true;
  bool skip_special_tokens = true;
  // As logprobs, for the prompt's tokens; decoder-only models.
  std::optional<int32_t> prompt_logprobs;
  bool echo = false;  // the prompt's text and ids before the generated ones
};

struct GenerateRequest {
  std::string model;
  Prompt prompt;
  std::optional<Prompt> target_prefix;  // encoder-decoder models: forced first target tokens
  // Multilingual translators: languages that the tokenizer knows. Empty: the tokenizer's default
  // source, and the target that the model chooses by itself.
  std::string source_language, target_language;
  Decoding decoding;
  LimitOptions limits;
  ShapingOptions shaping;
  OutputOptions output;
  int32_t priority = 0;    // higher first
  std::string client;      // requests of equal priority share fairly between clients
  std::string request_id;  // from the client; the engine ignores it
  std::string cache_salt;  // cached prefixes are shared only between requests with the same salt
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;  // charged for its tokens; null: not charged
  // If the answer would be larger (engine/intake/answer_size.h), the request fails with
  // OUT_OF_RANGE before it is computed; 0: no limit.
  int64_t max_answer_bytes = 0;
};

enum class FinishReason : uint8_t { kNone, kEos, kStop, kLength, kDeadline, kCancelled };

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;  // natural log, of the model's own distribution
};

struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending; as many as requested
};

struct GeneratedSequence {
  TokenIds ids;  // generated ids, the end token included
  std::string text;
  double cumulative_logprob = 0.0;
  float score = 0.0f;  // beam search: sum / length^length_penalty; else cumulative_logprob
  std::vector<PositionLogprobs> logprobs;  // one per id, if requested
  FinishReason finish_reason = FinishReason::kNone;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // prompt tokens found in the prefix cache
  int32_t generated_tokens = 0;  // over all returned sequences
};

struct Timing {
  std::chrono::nanoseconds queue{};             // submission to the first step
  std::chrono::nanoseconds expected_queue{-1};  // estimate made at submission; < 0: none was made
  std::chrono::nanoseconds first_token{};       // to the first token; encode and score: zero
  std::chrono::nanoseconds total{};             // submission to the end
};

// New output since the last delta of a stream. Never retracted.
struct GenerateDelta {
  int32_t sequence = 0;  // index: 0 .. num_sequences - 1
  TokenIds ids;
  std::string text;
  std::vector<PositionLogprobs> logprobs;
};

struct GenerateResult {
  // Beam search: best first. Samples: in sampling order, with the same indices as in deltas.
  std::vector<GeneratedSequence> sequences;
  Usage usage;
  Timing timing;
  uint64_t seed = 0;  // used for sampling
  // If requested: one entry per prompt token except the first.
  std::vector<PositionLogprobs> prompt_logprobs;
};

// Receives the results of one request. Called on an engine thread, never concurrently. It must
// return quickly and may call only Cancel on the engine.
class GenerateSink {
 public:
  virtual ~GenerateSink() = default;
  // OnDelta is called only if wants_deltas() was true at submission.
  virtual bool wants_deltas() const { return false; }
  virtual void OnDelta(GenerateDelta delta) { static_cast<void>(delta); }
  // Called exactly once, as the last call.
  virtual void OnFinish(absl::StatusOr<GenerateResult> result) = 0;
};

// --- Scoring ------------------------------------------------------------------------------------

struct ScoreRequest {
  std::string model;
  Prompt prompt;  // encoder-decoder models: the source
  // Each has at least one token. Decoder-only models: text without special tokens. Encoder-decoder
  // models: text as a whole target with its end token.
  std::vector<Prompt> continuations;
  std::string source_language, target_language;  // as in GenerateRequest
  bool per_token = false;                        // ContinuationScore::tokens
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::string cache_salt;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

struct ContinuationScore {
  double logprob = 0.0;  // sum over its tokens, of the model's own distribution
  int32_t num_tokens = 0;
  std::vector<TokenLogprob> tokens;  // with per_token
};

struct ScoreResult {
  std::vector<ContinuationScore> scores;  // in the order of the continuations
  Usage usage;
  Timing timing;
};

class ScoreSink {
 public:
  virtual ~ScoreSink() = default;
  virtual void OnFinish(absl::StatusOr<ScoreResult> result) = 0;  // exactly once
};

// --- Encoding -----------------------------------------------------------------------------------

enum class EncodeTruncation : uint8_t { kNone, kRight, kLeft };

struct EncodeRequest {
  std::string model;
  std::vector<Prompt> inputs;
  std::optional<Pooling> pooling;     // absent: the model's own
  bool per_token = false;             // pooling NONE: one vector per token
  std::optional<bool> normalize;      // absent: the model's own
  std::optional<int32_t> dimensions;  // absent: all; else the first ones, normalised again
  EncodeTruncation truncate = EncodeTruncation::kNone;
  std::string prompt_name;  // from config_sentence_transformers.json; empty: the model's default
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
  // Called once before the computation, on the tokenizing thread, with the minimum size of the
  // answer in bytes (engine/intake/answer_size.h); may be empty.
  std::function<void(int64_t)> on_answer_bytes;
};

struct Embedding {
  int32_t num_vectors = 1;  // per_token: the number of tokens
  int32_t dimensions = 0;
  std::vector<float> values;  // [num_vectors, dimensions]
  int32_t num_tokens = 0;
};

// A token of an input's text.
struct InputToken {
  int32_t id = 0;
  int32_t begin = 0, end = 0;  // bytes of the text
  bool of_template = false;    // added by the template; not part of the text
};

// A masked token and its candidate tokens.
struct FilledMask {
  int32_t position = 0;                             // index in the input's tokens
  std::vector<std::pair<int32_t, float>> tokens{};  // ids and probabilities, best first
};

struct EncodeResult {
  std::vector<Embedding> embeddings;            // in the order of the inputs
  std::vector<std::vector<InputToken>> tokens;  // per input; only if the request asks for tokens
  std::vector<std::vector<FilledMask>> masks;   // per input; only for FillMask
  Usage usage;
  Timing timing;
};

class EncodeSink {
 public:
  virtual ~EncodeSink() = default;
  virtual void OnFinish(absl::StatusOr<EncodeResult> result) = 0;  // exactly once
};

// --- Classifying --------------------------------------------------------------------------------

// Applied to a classifier's logits: sigmoid to each, or softmax over all.
enum class ScoreFunction : uint8_t { kNone, kSigmoid, kSoftmax };

// Two texts as one input, combined by the tokenizer's pair template.
struct TextPair {
  std::string first, second;
};
// Text in UTF-8; token ids taken as they are, with type id 0; or a pair.
using ClassifyInput = std::variant<std::string, TokenIds, TextPair>;

// The result is an EncodeResult: one vector per input, with the scores of its classes in the order
// of ModelInfo::labels.
struct ClassifyRequest {
  std::string model;
  std::vector<ClassifyInput> inputs;
  // Reranking: the first text of every pair; each input is a text and becomes the second. The model
  // has one class, or it generates and has a rerank_template.
  std::optional<std::string> query;
  std::optional<ScoreFunction> function;  // absent: the model's own
  std::optional<int32_t> top;             // number of classes the caller wants; the engine only
                                          // checks it
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::string cache_salt;  // of generative rerankers, as in GenerateRequest
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

// The result is an EncodeResult with tokens. It has one vector per token: the softmax over the
// token's classes, in the order of ModelInfo::labels.
struct ClassifyTokensRequest {
  std::string model;
  std::vector<std::string> inputs;  // UTF-8
  std::optional<int32_t> top;       // number of classes the caller wants; the engine only checks it
  size_t num_ignored_labels = 0;    // only checked, too
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

// --- Filling masks ------------------------------------------------------------------------------

// The result is an EncodeResult with tokens and masks, but no vectors.
struct FillMaskRequest {
  std::string model;
  std::vector<std::string> inputs;   // UTF-8; each has at least one ModelInfo::mask_token
  int32_t top_k = 5;                 // per mask
  std::vector<std::string> targets;  // candidates are limited to these; empty: the whole vocabulary
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

}  // namespace beamline
