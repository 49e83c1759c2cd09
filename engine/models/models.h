// Reads from a checkpoint everything that serving needs to know. models.cc lists the families.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/spec.h"

namespace beamline {

// Values of generation_config.json, or of config.json where transformers falls back to it.
struct GenerationDefaults {
  int32_t decoder_start_token_id = -1;  // encoder-decoder models
  int32_t bos_token_id = -1;            // replaces an empty prompt; -1: none
  TokenIds eos_token_ids;
  int32_t pad_token_id = -1;
  std::optional<int32_t> forced_bos_token_id;
  std::optional<int32_t> forced_eos_token_id;
  TokenIds suppress_tokens;
  std::vector<TokenIds> bad_words_ids;
  std::vector<std::string> stop_strings;
  int32_t num_beams = 1;
  int32_t num_return_sequences = 1;
  bool do_sample = false;
  std::optional<float> temperature, top_p, min_p, typical_p, length_penalty, repetition_penalty;
  std::optional<int32_t> top_k, no_repeat_ngram_size;
  std::optional<EarlyStopping> early_stopping;
  // Beam search: apply log-softmax again after the logits processors.
  bool renormalize_logits = false;
  // max_length and min_length include the prompt (encoder-decoder: the decoder start token).
  std::optional<int32_t> max_new_tokens, max_length;
  std::optional<int32_t> min_new_tokens, min_length;
};

// From sentence-transformers' modules.json, pooling config and prompts; without them, the defaults.
struct EncodingDefaults {
  // Elements of a text's vector, before truncation to `dimensions`.
  int32_t vector_size(int32_t hidden_size) const {
    return dense.empty() ? hidden_size : dense.back().out_size;
  }

  Pooling pooling = Pooling::kMean;
  std::vector<DenseSpec> dense;  // after pooling, in order
  bool normalize = false;        // after the dense layers
  int32_t dimensions = 0;        // truncate_dim: elements kept after the modules; 0: all
  int32_t max_input_tokens = 0;  // max_seq_length; 0: the tokenizer's model_max_length
  bool lower_case = false;       // lowercase texts before anything else
  std::vector<std::pair<std::string, std::string>> prompts;  // name, text put before the input
  std::string default_prompt_name;                           // empty: none
};

// A classifier's classes, from config.json.
struct ClassifyDefaults {
  std::vector<std::string> labels;  // id2label, one per class
  // Text classification: the function that transformers' pipeline applies to the logits; it depends
  // on problem_type and the number of classes.
  ScoreFunction function = ScoreFunction::kNone;
  // The function that sentence-transformers' CrossEncoder applies.
  ScoreFunction rank_function = ScoreFunction::kNone;
  // Decoders: the class is read at the last token with another id; -1: at the last token.
  int32_t padding_id = -1;
};

struct ModelDescription {
  TransformerSpec spec;
  GenerationDefaults generation;
  EncodingDefaults encoding;
  ClassifyDefaults classifying;  // if the spec has a classifier
};

// Checks that config.json names a served family and architecture. Errors start with "config.json: "
// and list what is served.
absl::Status CheckFamily(const nlohmann::json& config);

// INVALID_ARGUMENT names the field and value of config.json that a family does not support.
// UNIMPLEMENTED for an unknown model_type lists the families. `max_model_len` limits the length of
// sequences; 0: no limit. INVALID_ARGUMENT names it if it is out of range (2 up to the checkpoint's
// positions; models with relative positions accept more).
absl::StatusOr<ModelDescription> DescribeModel(const Checkpoint& checkpoint,
                                               int32_t max_model_len = 0);

}  // namespace beamline
