// What is asked of the engine and what comes back, as plain structs. The engine knows no protobuf:
// server/ converts. Field names are those of the public contract
// (proto/beamline/v1/inference.proto), because error messages name them; what they may hold is in
// request_limits.h.
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
  std::string members_json;  // what else it has, a JSON object; may be empty

  bool operator==(const ChatMessage&) const = default;
};

// A conversation, which the checkpoint's chat template makes a text of. The JSON texts may be
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

// Text in UTF-8, token ids taken as they are (nothing is added to them), or a conversation, whose
// text has its special tokens already. A text without tokens starts at the model's begin token
// (decoder-only models). Only what a request generates from or scores after may be a conversation.
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

// monostate: as the model's generation_config.json says, else greedy.
using Decoding = std::variant<std::monostate, GreedyOptions, SamplingOptions, BeamOptions>;

struct LimitOptions {
  std::optional<int32_t> max_new_tokens;  // absent: the model's default, at most what fits
  // Holds back stop ids and texts too. Absent: the model's default, which does not.
  std::optional<int32_t> min_new_tokens;
  std::vector<std::string> stop;  // none empty; without any: the model's
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
  // The chosen token's log-probability and those of so many likeliest.
  int32_t logprobs = 0;
  bool return_logprobs = false;  // log-probabilities at all (logprobs = 0: the chosen alone)
  bool return_token_ids = true;
  bool skip_special_tokens = true;
  // The same of the prompt's tokens; decoder-only models.
  std::optional<int32_t> prompt_logprobs;
  bool echo = false;  // the prompt's text and ids before the generated ones
};

struct GenerateRequest {
  std::string model;
  Prompt prompt;
  std::optional<Prompt> target_prefix;  // encoder-decoder models: forced first target tokens
  // Translators between many languages, of those that their tokenizer knows; empty: its own, and
  // whatever the model begins with.
  std::string source_language, target_language;
  Decoding decoding;
  LimitOptions limits;
  ShapingOptions shaping;
  OutputOptions output;
  int32_t priority = 0;    // higher first
  std::string client;      // requests of equal priority share fairly between clients
  std::string request_id;  // the client's; comes to nothing in the engine
  std::string cache_salt;  // cached prompts are shared with requests of the same salt only
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;  // of its tokens; null: nobody counts them
  // An answer that must come out larger (engine/intake/answer_size.h) is OUT_OF_RANGE before
  // anything of it is computed; 0: any size will do.
  int64_t max_answer_bytes = 0;
};

enum class FinishReason : uint8_t { kNone, kEos, kStop, kLength, kDeadline, kCancelled };

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;  // natural log, of the model's own distribution
};

struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, as many as asked for
};

struct GeneratedSequence {
  TokenIds ids;  // generated ids, the end token included
  std::string text;
  double cumulative_logprob = 0.0;
  float score = 0.0f;  // beam search: sum / length^length_penalty; else cumulative_logprob
  std::vector<PositionLogprobs> logprobs;  // one per id, when asked for
  FinishReason finish_reason = FinishReason::kNone;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // of the prompt, found in the cache
  int32_t generated_tokens = 0;  // over all returned sequences
};

struct Timing {
  std::chrono::nanoseconds queue{};             // submission to the first step
  std::chrono::nanoseconds expected_queue{-1};  // as it was told at submission; < 0: it was not
  std::chrono::nanoseconds first_token{};       // to the first token; encode and score: zero
  std::chrono::nanoseconds total{};             // submission to the end
};

// What became certain since the last delta of a stream. Never retracted.
struct GenerateDelta {
  int32_t sequence = 0;  // which of num_sequences
  TokenIds ids;
  std::string text;
  std::vector<PositionLogprobs> logprobs;
};

struct GenerateResult {
  // Hypotheses: best first. Samples: in the order of their draws, as deltas number them.
  std::vector<GeneratedSequence> sequences;
  Usage usage;
  Timing timing;
  uint64_t seed = 0;  // of sampling
  // When asked for: one per prompt token but the first.
  std::vector<PositionLogprobs> prompt_logprobs;
};

// Where the results of one request go. Called from an engine thread, never concurrently; must
// return quickly and must not call back into the engine other than Cancel.
class GenerateSink {
 public:
  virtual ~GenerateSink() = default;
  // REQUIRES for OnDelta to be called: wants_deltas() at submission.
  virtual bool wants_deltas() const { return false; }
  virtual void OnDelta(GenerateDelta delta) { static_cast<void>(delta); }
  // Exactly once, last.
  virtual void OnFinish(absl::StatusOr<GenerateResult> result) = 0;
};

// --- Scoring ------------------------------------------------------------------------------------

struct ScoreRequest {
  std::string model;
  Prompt prompt;  // encoder-decoder models: the source
  // None without tokens. Text: without special tokens for decoder-only
  // models, as a whole target with its end token for encoder-decoder ones.
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
  std::optional<int32_t> dimensions;  // absent: all; else a prefix of this many, normalised again
  EncodeTruncation truncate = EncodeTruncation::kNone;
  std::string prompt_name;  // of config_sentence_transformers.json; empty: its default
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
  // Told once, before anything is computed, how many bytes the answer has at least
  // (engine/intake/answer_size.h), on the thread that tokenizes; may be empty.
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
  bool of_template = false;    // stands for none of the text
};

// A masked token, and what may stand in its place.
struct FilledMask {
  int32_t position = 0;                             // among the input's tokens
  std::vector<std::pair<int32_t, float>> tokens{};  // ids and probabilities, the best first
};

struct EncodeResult {
  std::vector<Embedding> embeddings;            // in the order of the inputs
  std::vector<std::vector<InputToken>> tokens;  // of each input; for requests that ask for them
  std::vector<std::vector<FilledMask>> masks;   // of each input; for requests that fill them in
  Usage usage;
  Timing timing;
};

class EncodeSink {
 public:
  virtual ~EncodeSink() = default;
  virtual void OnFinish(absl::StatusOr<EncodeResult> result) = 0;  // exactly once
};

// --- Classifying --------------------------------------------------------------------------------

// What a classifier's logits become before they are told: sigmoid of each, or softmax of all.
enum class ScoreFunction : uint8_t { kNone, kSigmoid, kSoftmax };

// Two texts that are one input, in the tokenizer's template of two texts.
struct TextPair {
  std::string first, second;
};
// Text in UTF-8; ids taken as they are, of type 0; or a pair.
using ClassifyInput = std::variant<std::string, TokenIds, TextPair>;

// The answer is an EncodeResult, whose vectors are the scores of each input's classes, in the order
// of ModelInfo::labels.
struct ClassifyRequest {
  std::string model;
  std::vector<ClassifyInput> inputs;
  // Reranking: the first text of every pair, whose second one is each of the inputs, a text. Such a
  // model has one class, or writes and has a rerank_template.
  std::optional<std::string> query;
  std::optional<ScoreFunction> function;  // absent: the model's own
  std::optional<int32_t> top;             // that the caller wants to know of; the engine checks it
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::string cache_salt;  // of a model that writes, as in GenerateRequest
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

// The answer is an EncodeResult with tokens, whose vectors, one for each token, are the softmax of
// the token's classes, in the order of ModelInfo::labels.
struct ClassifyTokensRequest {
  std::string model;
  std::vector<std::string> inputs;  // UTF-8
  std::optional<int32_t> top;       // that the caller wants to know of; the engine checks it
  size_t num_ignored_labels = 0;    // likewise
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

// --- Filling masks ------------------------------------------------------------------------------

// The answer is an EncodeResult with tokens and masks, and no vectors.
struct FillMaskRequest {
  std::string model;
  std::vector<std::string> inputs;   // UTF-8, each with one ModelInfo::mask_token at least
  int32_t top_k = 5;                 // of each mask
  std::vector<std::string> targets;  // the only ones that are told; empty: the whole vocabulary
  EncodeTruncation truncate = EncodeTruncation::kNone;
  int32_t priority = 0;
  std::string client;
  std::string request_id;
  std::optional<Clock::time_point> deadline;
  std::shared_ptr<TokenCharge> charge;
  int64_t max_answer_bytes = 0;  // as in GenerateRequest
};

}  // namespace beamline
