// The effect of a sequence's history and of the shaping options on its next scores: Hugging Face's
// logits processors as LogitsEdits, updated token by token instead of recomputed.
//
// The order is that of transformers: repetition penalty, then presence and frequency penalties,
// then bans and biases, which commute. Bans are repeated n-grams, bad words, suppressed tokens, and
// end tokens before min_new_tokens (if a request sets it: stop ids too). A forced token overrides
// all of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/api/request.h"
#include "engine/decoding/ngram_index.h"
#include "engine/decoding/resolved_decoding.h"
#include "kernels/backend.h"

namespace beamline {

// Rules that all sequences of a group share.
struct ShapingRules {
  explicit ShapingRules(const ResolvedDecoding& decoding);
  // The rules of a request. Returns those of the last request of any thread if they are equal,
  // because most requests of a model use its defaults.
  static std::shared_ptr<const ShapingRules> For(const ResolvedDecoding& decoding);

  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t no_repeat_ngram_size;
  std::vector<LogitsEdits::Bias> constant_biases;
  // Bad words of several tokens, by their second-to-last token.
  absl::flat_hash_map<int32_t, std::vector<TokenIds>> bad_words;
  TokenIds end_tokens;
  TokenIds stop_tokens;  // held back by min_new_tokens, too
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

  bool bans_ends(int32_t num_generated) const { return num_generated < min_new_tokens; }
  void BanEnds(LogitsEdits& edits) const;
  // The token that is forced after `num_generated` tokens; -1: none.
  int32_t ForcedAfter(int32_t prompt_size, int32_t num_generated) const;
  // The edits of any sequence of this length. REQUIRES: !depends_on_tokens().
  const LogitsEdits& EditsAfter(int32_t prompt_size, int32_t num_generated) const;

 private:
  bool AreOf(const ResolvedDecoding& decoding) const;

  // As in the request, to compare with later requests.
  const std::vector<std::pair<int32_t, float>> logit_bias_;
  const TokenIds suppress_tokens_;
  const std::vector<TokenIds> all_bad_words_;
  // Index: whether end tokens are banned; whether no token, the first or the last is forced.
  std::array<std::array<LogitsEdits, 3>, 2> edits_by_length_;
};

// The shaper of one sequence. Copied when the sequence forks; copying is free while the rules do
// not depend on tokens.
class LogitsShaper {
 public:
  // prompt: what the decoder read before the first generated token; it counts for the repetition
  // penalty, n-grams and bad words. The rules must outlive the shaper. It holds a plain pointer:
  // reference counting, shared by groups on several threads, would dominate the cost of a copy.
  LogitsShaper(const ShapingRules& rules, std::span<const int32_t> prompt);
  LogitsShaper(const LogitsShaper& other);
  LogitsShaper& operator=(const LogitsShaper& other) { return *this = LogitsShaper(other); }
  LogitsShaper(LogitsShaper&&) = default;
  LogitsShaper& operator=(LogitsShaper&&) = default;

  void Append(int32_t token);
  // Edits for the next token; null when there are none. Valid until Append.
  const LogitsEdits* edits() const;
  // The factor that the repetition penalty applies to the token's log-probability.
  float RepetitionFactor(int32_t token) const {
    return own_ != nullptr && own_->penalty_index.contains(token) ? rules_->repetition_penalty
                                                                  : 1.0f;
  }

 private:
  // State of a sequence whose edits depend on its tokens.
  struct Own {
    explicit Own(const ShapingRules& rules);

    TokenIds history;  // with needs_history() only
    NgramIndex ngrams;
    absl::flat_hash_map<int32_t, int32_t> penalty_index;  // token -> index in edits.penalties
    std::vector<int32_t> followers;
    LogitsEdits edits;
  };

  void AppendToHistory(int32_t token);
  void CountToken(int32_t token, bool generated);
  void UpdateEdits();

  const ShapingRules* rules_;
  int32_t prompt_size_;
  int32_t num_generated_ = 0;
  std::unique_ptr<Own> own_;  // null: the rules do not depend on tokens
};

// Computes the model's logit of a token from its edited score, by undoing the edits in reverse
// order. REQUIRES: the token is neither banned nor forced (its score does not depend on its logit
// then).
float UneditedLogit(const LogitsEdits* edits, int32_t token, float edited_score);

}  // namespace beamline
