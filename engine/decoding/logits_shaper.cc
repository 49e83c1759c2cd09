#include "engine/decoding/logits_shaper.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

namespace beamline {
namespace {

constexpr float kBan = -std::numeric_limits<float>::infinity();

void Ban(int32_t token, LogitsEdits& edits) { edits.biases.push_back({token, kBan}); }

TokenIds HeldStopTokens(const ResolvedDecoding& decoding) {
  const bool holds = decoding.min_holds_stops && decoding.min_new_tokens > 0;
  return holds ? decoding.stop_token_ids : TokenIds();
}

}  // namespace

ShapingRules::ShapingRules(const ResolvedDecoding& decoding)
    : repetition_penalty(decoding.repetition_penalty),
      presence_penalty(decoding.presence_penalty),
      frequency_penalty(decoding.frequency_penalty),
      no_repeat_ngram_size(decoding.no_repeat_ngram_size),
      end_tokens(decoding.all_eos_token_ids),
      stop_tokens(HeldStopTokens(decoding)),
      min_new_tokens(decoding.min_new_tokens),
      max_new_tokens(decoding.max_new_tokens),
      forced_bos(decoding.forced_bos),
      forced_eos(decoding.forced_eos),
      logit_bias_(decoding.logit_bias),
      suppress_tokens_(decoding.suppress_tokens),
      all_bad_words_(decoding.bad_words) {
  for (const auto& [id, bias] : decoding.logit_bias) constant_biases.push_back({id, bias});
  for (const int32_t id : decoding.suppress_tokens) constant_biases.push_back({id, kBan});
  for (const TokenIds& word : decoding.bad_words) {
    if (word.size() > 1) {
      bad_words[word[word.size() - 2]].push_back(word);
      continue;
    }
    // transformers ignores bad words that are an end token.
    if (std::ranges::find(end_tokens, word[0]) == end_tokens.end()) {
      constant_biases.push_back({word[0], kBan});
    }
  }
  if (depends_on_tokens()) return;
  const std::array forced = {-1, forced_bos, forced_eos};
  for (size_t bans = 0; bans < (min_new_tokens > 0 ? 2 : 1); ++bans) {
    for (size_t i = 0; i < forced.size(); ++i) {
      if (i > 0 && forced[i] < 0) continue;
      LogitsEdits& edits = edits_by_length_[bans][i];
      edits.biases = constant_biases;
      if (bans > 0) BanEnds(edits);
      edits.forced_id = forced[i];
    }
  }
}

std::shared_ptr<const ShapingRules> ShapingRules::For(const ResolvedDecoding& decoding) {
  static std::mutex mutex;
  static std::shared_ptr<const ShapingRules> last;  // guarded by mutex
  // Long lists are compared, built and freed without the lock.
  std::shared_ptr<const ShapingRules> rules;
  {
    std::lock_guard lock(mutex);
    rules = last;
  }
  if (rules != nullptr && rules->AreOf(decoding)) return rules;
  rules = std::make_shared<const ShapingRules>(decoding);
  std::shared_ptr<const ShapingRules> before = rules;
  std::lock_guard lock(mutex);
  std::swap(last, before);
  return rules;
}

bool ShapingRules::AreOf(const ResolvedDecoding& decoding) const {
  return repetition_penalty == decoding.repetition_penalty &&
         presence_penalty == decoding.presence_penalty &&
         frequency_penalty == decoding.frequency_penalty &&
         no_repeat_ngram_size == decoding.no_repeat_ngram_size &&
         end_tokens == decoding.all_eos_token_ids && stop_tokens == HeldStopTokens(decoding) &&
         min_new_tokens == decoding.min_new_tokens && max_new_tokens == decoding.max_new_tokens &&
         forced_bos == decoding.forced_bos && forced_eos == decoding.forced_eos &&
         logit_bias_ == decoding.logit_bias && suppress_tokens_ == decoding.suppress_tokens &&
         all_bad_words_ == decoding.bad_words;
}

void ShapingRules::BanEnds(LogitsEdits& edits) const {
  for (const int32_t token : end_tokens) Ban(token, edits);
  for (const int32_t token : stop_tokens) Ban(token, edits);
}

int32_t ShapingRules::ForcedAfter(int32_t prompt_size, int32_t num_generated) const {
  if (num_generated == max_new_tokens - 1 && forced_eos >= 0) return forced_eos;
  // transformers forces the first token only after a prompt of one token, the decoder start token.
  return prompt_size + num_generated == 1 ? forced_bos : -1;
}

const LogitsEdits& ShapingRules::EditsAfter(int32_t prompt_size, int32_t num_generated) const {
  const int32_t forced = ForcedAfter(prompt_size, num_generated);
  const size_t which = forced < 0 ? 0 : forced == forced_bos ? 1 : 2;
  return edits_by_length_[bans_ends(num_generated) ? 1 : 0][which];
}

LogitsShaper::Own::Own(const ShapingRules& rules)
    : ngrams(std::max(rules.no_repeat_ngram_size, 1)) {
  edits.repetition_penalty = rules.repetition_penalty;
  edits.presence_penalty = rules.presence_penalty;
  edits.frequency_penalty = rules.frequency_penalty;
  edits.biases = rules.constant_biases;
}

LogitsShaper::LogitsShaper(const ShapingRules& rules, std::span<const int32_t> prompt)
    : rules_(&rules), prompt_size_(static_cast<int32_t>(prompt.size())) {
  if (!rules_->depends_on_tokens()) return;
  own_ = std::make_unique<Own>(*rules_);
  if (rules_->needs_history()) {
    for (const int32_t token : prompt) AppendToHistory(token);
  }
  if (rules_->penalizes_prompt()) {
    for (const int32_t token : prompt) CountToken(token, /*generated=*/false);
  }
  UpdateEdits();
}

LogitsShaper::LogitsShaper(const LogitsShaper& other)
    : rules_(other.rules_),
      prompt_size_(other.prompt_size_),
      num_generated_(other.num_generated_),
      own_(other.own_ == nullptr ? nullptr : std::make_unique<Own>(*other.own_)) {}

void LogitsShaper::Append(int32_t token) {
  ++num_generated_;
  if (own_ == nullptr) return;
  if (rules_->needs_history()) AppendToHistory(token);
  if (rules_->penalizes()) CountToken(token, /*generated=*/true);
  UpdateEdits();
}

const LogitsEdits* LogitsShaper::edits() const {
  const LogitsEdits& edits =
      own_ != nullptr ? own_->edits : rules_->EditsAfter(prompt_size_, num_generated_);
  return edits.empty() ? nullptr : &edits;
}

void LogitsShaper::AppendToHistory(int32_t token) {
  own_->history.push_back(token);
  if (rules_->no_repeat_ngram_size > 0) own_->ngrams.Append(own_->history);
}

void LogitsShaper::CountToken(int32_t token, bool generated) {
  std::vector<LogitsEdits::Penalty>& penalties = own_->edits.penalties;
  const auto index = static_cast<int32_t>(penalties.size());
  const auto [entry, inserted] = own_->penalty_index.try_emplace(token, index);
  if (inserted) penalties.push_back({token, 0, 0});
  LogitsEdits::Penalty& penalty = penalties[entry->second];
  ++penalty.prompt_or_output_count;
  if (generated) ++penalty.output_count;
}

void LogitsShaper::UpdateEdits() {
  LogitsEdits& edits = own_->edits;
  const TokenIds& history = own_->history;
  edits.biases.resize(rules_->constant_biases.size());
  if (rules_->no_repeat_ngram_size > 0) {
    own_->followers.clear();
    own_->ngrams.FindFollowers(history, own_->followers);
    for (const int32_t token : own_->followers) Ban(token, edits);
  }
  if (!rules_->bad_words.empty() && !history.empty()) {
    if (const auto words = rules_->bad_words.find(history.back());
        words != rules_->bad_words.end()) {
      for (const TokenIds& word : words->second) {
        const std::span<const int32_t> prefix = std::span(word).first(word.size() - 1);
        if (prefix.size() <= history.size() &&
            std::equal(prefix.rbegin(), prefix.rend(), history.rbegin())) {
          Ban(word.back(), edits);
        }
      }
    }
  }
  if (rules_->bans_ends(num_generated_)) rules_->BanEnds(edits);
  edits.forced_id = rules_->ForcedAfter(prompt_size_, num_generated_);
}

float UneditedLogit(const LogitsEdits* edits, int32_t token, float edited_score) {
  if (edits == nullptr) return edited_score;
  float score = edited_score;
  for (const LogitsEdits::Bias& bias : edits->biases) {
    if (bias.id == token) score -= bias.value;
  }
  for (const LogitsEdits::Penalty& penalty : edits->penalties) {
    if (penalty.id != token) continue;
    if (penalty.output_count > 0) {
      score += edits->presence_penalty +
               edits->frequency_penalty * static_cast<float>(penalty.output_count);
    }
    const float factor = edits->repetition_penalty;
    return score < 0.0f ? score / factor : score * factor;
  }
  return score;
}

}  // namespace beamline
