// What a sequence's history and the shaping options do to its next scores: Hugging Face's logits
// processors as LogitsEdits, kept up to date token by token instead of recomputed.
//
// The order is that of transformers: repetition penalty, (presence and frequency penalties), then
// bans and biases, which commute: repeated n-grams, bad words, end tokens before min_new_tokens,
// suppressed tokens, logit_bias. A forced token overrides them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/decoding/ngram_index.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/request.h"
#include "kernels/backend.h"

namespace beamline {

// The part that the sequences of a group share.
struct ShapingRules {
  explicit ShapingRules(const ResolvedDecoding& decoding);

  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t no_repeat_ngram_size;
  std::vector<LogitsEdits::Bias> constant_biases;
  // Bad words of several tokens, by their last but one.
  absl::flat_hash_map<int32_t, std::vector<TokenIds>> bad_words;
  TokenIds end_tokens;
  int32_t min_new_tokens;
  int32_t max_new_tokens;
  int32_t forced_bos;
  int32_t forced_eos;

  bool penalizes_prompt() const { return repetition_penalty != 1.0f; }
  bool penalizes() const {
    return penalizes_prompt() || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  // Whether an edit depends on which tokens came before, not only on how many.
  bool depends_on_tokens() const { return penalizes() || needs_history(); }
  bool needs_history() const { return no_repeat_ngram_size > 0 || !bad_words.empty(); }
};

// One sequence's. Copied when the sequence forks.
class LogitsShaper {
 public:
  // prompt: what the decoder consumed before the first generated token; it counts for the
  // repetition penalty, n-grams and bad words.
  LogitsShaper(std::shared_ptr<const ShapingRules> rules, std::span<const int32_t> prompt);

  void Append(int32_t token);
  // For the next token; null when nothing is edited. Valid until Append.
  const LogitsEdits* edits() const { return edits_.empty() ? nullptr : &edits_; }
  // What the repetition penalty makes of the token's log-probability: a factor.
  float RepetitionFactor(int32_t token) const {
    return penalty_index_.contains(token) ? rules_->repetition_penalty : 1.0f;
  }

 private:
  void AppendToHistory(int32_t token);
  void CountToken(int32_t token, bool generated);
  void UpdateEdits();
  void Ban(int32_t token);

  std::shared_ptr<const ShapingRules> rules_;
  int32_t prompt_size_;
  int32_t num_generated_ = 0;
  TokenIds history_;  // with needs_history() only
  NgramIndex ngrams_;
  absl::flat_hash_map<int32_t, int32_t> penalty_index_;  // token to its place in edits_.penalties
  std::vector<int32_t> followers_;
  LogitsEdits edits_;
};

// The model's own logit of a token whose edited score is known: the edits undone in reverse order.
// REQUIRES: the token is neither banned nor forced (its score says nothing of its logit then).
float UneditedLogit(const LogitsEdits* edits, int32_t token, float edited_score);

}  // namespace beamline
