// From a checkpoint to everything that serving needs to know of it. models.cc lists the families.
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

// generation_config.json, with config.json's values where transformers falls back to them.
struct GenerationDefaults {
  int32_t decoder_start_token_id = -1;  // encoder-decoder models
  int32_t bos_token_id = -1;            // what an empty prompt stands for; -1: none
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
  // Beam search: scores are log-softmaxed once more after the logits processors.
  bool renormalize_logits = false;
  // The lengths count the prompt (of the decoder: its start token).
  std::optional<int32_t> max_new_tokens, max_length;
  std::optional<int32_t> min_new_tokens, min_length;
};

// sentence-transformers' modules.json, pooling config and prompts; the defaults without them.
struct EncodingDefaults {
  // Elements of a text's vector, before its truncation.
  int32_t vector_size(int32_t hidden_size) const {
    return dense.empty() ? hidden_size : dense.back().out_size;
  }

  Pooling pooling = Pooling::kMean;
  std::vector<DenseSpec> dense;  // behind the pooling, in turn
  bool normalize = false;        // behind these
  int32_t dimensions = 0;        // truncate_dim: of a vector, behind the modules; 0: all
  int32_t max_input_tokens = 0;  // max_seq_length; 0: the tokenizer's model_max_length
  bool lower_case = false;       // texts are lowercased before anything else
  std::vector<std::pair<std::string, std::string>> prompts;  // name, text put before the input
  std::string default_prompt_name;                           // empty: none
};

// What config.json says of a classifier's classes.
struct ClassifyDefaults {
  std::vector<std::string> labels;  // id2label, of each class
  // Of texts what transformers' pipeline of text classification applies to the logits, by
  // problem_type and the number of classes.
  ScoreFunction function = ScoreFunction::kNone;
  // What sentence-transformers' CrossEncoder applies.
  ScoreFunction rank_function = ScoreFunction::kNone;
  // Of a decoder, whose class is read at the last token of another id; -1: at the last one.
  int32_t padding_id = -1;
};

struct ModelDescription {
  TransformerSpec spec;
  GenerationDefaults generation;
  EncodingDefaults encoding;
  ClassifyDefaults classifying;  // where the spec has a classifier
};

// Whether config.json names a family and an architecture of it that Beamline computes. Errors begin
// with "config.json: ", and list what is served.
absl::Status CheckFamily(const nlohmann::json& config);

// INVALID_ARGUMENT naming config.json's field and value where a family does not know them;
// UNIMPLEMENTED listing the families for an unknown model_type. With `max_model_len`, 2 up to the
// checkpoint's positions, no sequence is longer; INVALID_ARGUMENT naming it when it is out of
// range.
absl::StatusOr<ModelDescription> DescribeModel(const Checkpoint& checkpoint,
                                               int32_t max_model_len = 0);

}  // namespace beamline
