// What a sequence's history and the shaping options do to its next scores: Hugging Face's logits
// processors as LogitsEdits, kept up to date token by token instead of recomputed.
//
// The order is that of transformers: repetition penalty, (presence and frequency penalties), then
// bans and biases, which commute: repeated n-grams, bad words, end tokens before min_new_tokens (a
// request's: stop ids too), suppressed tokens, logit_bias. A forced token overrides them all.
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

// The part that the sequences of a group share.
struct ShapingRules {
  explicit ShapingRules(const ResolvedDecoding& decoding);
  // The rules of such a request: those of the last one, of whatever thread, where they are the
  // same, as most requests of a model have its defaults.
  static std::shared_ptr<const ShapingRules> For(const ResolvedDecoding& decoding);

  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t no_repeat_ngram_size;
  std::vector<LogitsEdits::Bias> constant_biases;
  // Bad words of several tokens, by their last but one.
  absl::flat_hash_map<int32_t, std::vector<TokenIds>> bad_words;
  TokenIds end_tokens;
  TokenIds stop_tokens;  // that min_new_tokens holds back too
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
  // The token that is forced after so many; -1: none.
  int32_t ForcedAfter(int32_t prompt_size, int32_t num_generated) const;
  // The edits of all sequences of a length. REQUIRES: !depends_on_tokens().
  const LogitsEdits& EditsAfter(int32_t prompt_size, int32_t num_generated) const;

 private:
  bool AreOf(const ResolvedDecoding& decoding) const;

  // As the request has them, to know them again.
  const std::vector<std::pair<int32_t, float>> logit_bias_;
  const TokenIds suppress_tokens_;
  const std::vector<TokenIds> all_bad_words_;
  // By whether end tokens are banned, and whether none, the first or the last token is forced.
  std::array<std::array<LogitsEdits, 3>, 2> edits_by_length_;
};

// One sequence's. Copied when the sequence forks: at no cost while its tokens do not matter.
class LogitsShaper {
 public:
  // prompt: what the decoder consumed before the first generated token; it counts for the
  // repetition penalty, n-grams and bad words. The rules outlive the shaper: groups on several
  // threads share them, and counting their holders would be the most that a copy does.
  LogitsShaper(const ShapingRules& rules, std::span<const int32_t> prompt);
  LogitsShaper(const LogitsShaper& other);
  LogitsShaper& operator=(const LogitsShaper& other) { return *this = LogitsShaper(other); }
  LogitsShaper(LogitsShaper&&) = default;
  LogitsShaper& operator=(LogitsShaper&&) = default;

  void Append(int32_t token);
  // For the next token; null when nothing is edited. Valid until Append.
  const LogitsEdits* edits() const;
  // What the repetition penalty makes of the token's log-probability: a factor.
  float RepetitionFactor(int32_t token) const {
    return own_ != nullptr && own_->penalty_index.contains(token) ? rules_->repetition_penalty
                                                                  : 1.0f;
  }

 private:
  // What a sequence has of its own when its edits depend on its tokens.
  struct Own {
    explicit Own(const ShapingRules& rules);

    TokenIds history;  // with needs_history() only
    NgramIndex ngrams;
    absl::flat_hash_map<int32_t, int32_t> penalty_index;  // token to its place in edits.penalties
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

// The model's own logit of a token whose edited score is known: the edits undone in reverse order.
// REQUIRES: the token is neither banned nor forced (its score says nothing of its logit then).
float UneditedLogit(const LogitsEdits* edits, int32_t token, float edited_score);

}  // namespace beamline
