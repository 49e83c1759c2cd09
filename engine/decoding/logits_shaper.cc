#include "engine/decoding/logits_shaper.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace beamline {
namespace {

constexpr float kBan = -std::numeric_limits<float>::infinity();

}  // namespace

ShapingRules::ShapingRules(const ResolvedDecoding& decoding)
    : repetition_penalty(decoding.repetition_penalty),
      presence_penalty(decoding.presence_penalty),
      frequency_penalty(decoding.frequency_penalty),
      no_repeat_ngram_size(decoding.no_repeat_ngram_size),
      end_tokens(decoding.all_eos_token_ids),
      min_new_tokens(decoding.min_new_tokens),
      max_new_tokens(decoding.max_new_tokens),
      forced_bos(decoding.forced_bos),
      forced_eos(decoding.forced_eos) {
  for (const auto& [id, bias] : decoding.logit_bias) constant_biases.push_back({id, bias});
  for (const int32_t id : decoding.suppress_tokens) constant_biases.push_back({id, kBan});
  for (const TokenIds& word : decoding.bad_words) {
    if (word.size() > 1) {
      bad_words[word[word.size() - 2]].push_back(word);
      continue;
    }
    // transformers leaves out bad words that are an end token.
    if (std::ranges::find(end_tokens, word[0]) == end_tokens.end()) {
      constant_biases.push_back({word[0], kBan});
    }
  }
}

LogitsShaper::LogitsShaper(std::shared_ptr<const ShapingRules> rules,
                           std::span<const int32_t> prompt)
    : rules_(std::move(rules)),
      prompt_size_(static_cast<int32_t>(prompt.size())),
      ngrams_(std::max(rules_->no_repeat_ngram_size, 1)) {
  edits_.repetition_penalty = rules_->repetition_penalty;
  edits_.presence_penalty = rules_->presence_penalty;
  edits_.frequency_penalty = rules_->frequency_penalty;
  edits_.biases = rules_->constant_biases;
  if (rules_->needs_history()) {
    for (const int32_t token : prompt) AppendToHistory(token);
  }
  if (rules_->penalizes_prompt()) {
    for (const int32_t token : prompt) CountToken(token, /*generated=*/false);
  }
  UpdateEdits();
}

void LogitsShaper::Append(int32_t token) {
  ++num_generated_;
  if (rules_->needs_history()) AppendToHistory(token);
  if (rules_->penalizes()) CountToken(token, /*generated=*/true);
  UpdateEdits();
}

void LogitsShaper::AppendToHistory(int32_t token) {
  history_.push_back(token);
  if (rules_->no_repeat_ngram_size > 0) ngrams_.Append(history_);
}

void LogitsShaper::CountToken(int32_t token, bool generated) {
  const auto index = static_cast<int32_t>(edits_.penalties.size());
  const auto [entry, inserted] = penalty_index_.try_emplace(token, index);
  if (inserted) edits_.penalties.push_back({token, 0, 0});
  LogitsEdits::Penalty& penalty = edits_.penalties[entry->second];
  ++penalty.prompt_or_output_count;
  if (generated) ++penalty.output_count;
}

void LogitsShaper::UpdateEdits() {
  edits_.biases.resize(rules_->constant_biases.size());
  if (rules_->no_repeat_ngram_size > 0) {
    followers_.clear();
    ngrams_.FindFollowers(history_, followers_);
    for (const int32_t token : followers_) Ban(token);
  }
  if (!rules_->bad_words.empty() && !history_.empty()) {
    if (const auto words = rules_->bad_words.find(history_.back());
        words != rules_->bad_words.end()) {
      for (const TokenIds& word : words->second) {
        const std::span<const int32_t> prefix = std::span(word).first(word.size() - 1);
        if (prefix.size() <= history_.size() &&
            std::equal(prefix.rbegin(), prefix.rend(), history_.rbegin())) {
          Ban(word.back());
        }
      }
    }
  }
  if (num_generated_ < rules_->min_new_tokens) {
    for (const int32_t token : rules_->end_tokens) Ban(token);
  }
  // transformers forces the first token only after a prompt of one token, the decoder's start.
  edits_.forced_id = prompt_size_ + num_generated_ == 1 ? rules_->forced_bos : -1;
  if (num_generated_ == rules_->max_new_tokens - 1 && rules_->forced_eos >= 0) {
    edits_.forced_id = rules_->forced_eos;
  }
}

void LogitsShaper::Ban(int32_t token) { edits_.biases.push_back({token, kBan}); }

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
