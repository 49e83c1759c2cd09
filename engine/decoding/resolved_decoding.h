// A request's decoding options, validated and merged with the model's defaults. No optionals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/models/models.h"
#include "engine/text/tokenizer.h"

namespace beamline {

enum class DecodingKind : uint8_t { kGreedy, kSampling, kBeam };

struct ResolvedDecoding {
  DecodingKind kind = DecodingKind::kGreedy;
  int32_t num_sequences = 1;
  // Sampling.
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  uint64_t seed = 0;
  // Beam search.
  int32_t beam_width = 1;
  int32_t num_beam_groups = 1;  // divides beam_width; more than one: diverse beam search
  float diversity_penalty = 0.0f;
  int32_t pad_token_id = -1;  // counts as chosen by each beam of a finished group; -1: none
  float length_penalty = 1.0f;
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
  bool renormalize = false;  // apply log-softmax again after the edits

  int32_t max_new_tokens = 0;  // fits the model's positions
  int32_t min_new_tokens = 0;  // no end token before this many tokens
  // Whether stop ids and stop strings wait for min_new_tokens, too. As in transformers, a minimum
  // of the request holds them back; the model's default does not.
  bool min_holds_stops = false;
  std::vector<std::string> stop;
  TokenIds stop_token_ids;     // end a sequence with STOP
  TokenIds eos_token_ids;      // end a sequence with EOS; empty with ignore_eos
  TokenIds all_eos_token_ids;  // the model's, for min_new_tokens and forced ends
  bool include_stop = false;

  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t no_repeat_ngram_size = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<TokenIds> bad_words;
  TokenIds suppress_tokens;
  int32_t forced_bos = -1;  // first generated token, as forced_bos_token_id; -1: none
  int32_t forced_eos = -1;  // last token at the length limit; -1: none

  OutputOptions output;
  int32_t vocab_size = 0;
};

// Error messages prefix fields of the model's defaults with this, unless another file sets them.
inline constexpr std::string_view kDefaultsFile = "generation_config.json: ";

struct DecodingLimits {
  int32_t vocab_size = 0;
  int32_t max_total_tokens = 0;  // decoder positions
  bool by_setting = false;       // max_model_len set it, not the checkpoint
};

// Checks everything that does not depend on the tokenized prompt. INVALID_ARGUMENT names the field,
// the value and the accepted range. A model default out of range is named as
// "generation_config.json: temperature". FitLength sets max_new_tokens and min_new_tokens later.
//
// - Without `decoding`: num_beams > 1 selects beam search, else do_sample selects sampling, else
//   greedy.
// - One beam is greedy decoding, as in transformers.
// - Without a seed, sampling draws one here.
// - The model's bad words and suppressed tokens apply in addition to the request's.
absl::StatusOr<ResolvedDecoding> ResolveDecoding(const GenerateRequest& request,
                                                 const GenerationDefaults& defaults,
                                                 const Tokenizer& tokenizer,
                                                 const DecodingLimits& limits);

// Sets max_new_tokens and min_new_tokens for a decoder prompt of `prompt_tokens` (encoder-decoder
// models: start token and target prefix). If a request's max_new_tokens does not fit, returns
// INVALID_ARGUMENT with both lengths; a default is reduced to what fits.
absl::Status FitLength(const GenerateRequest& request, const GenerationDefaults& defaults,
                       const DecodingLimits& limits, int32_t prompt_tokens,
                       ResolvedDecoding& decoding);

}  // namespace beamline
