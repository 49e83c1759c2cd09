#include "engine/decoding/prompt_lookup_decoder.h"

#include <algorithm>

#include "base/check.h"

namespace beamline {

PromptLookupDecoder::PromptLookupDecoder(const ResolvedDecoding& decoding,
                                         std::span<const int32_t> prompt,
                                         const Tokenizer& tokenizer, bool wants_deltas,
                                         Speculation& speculation)
    : prompt_tokens_(static_cast<int32_t>(prompt.size())),
      max_new_tokens_(decoding.max_new_tokens),
      speculation_(speculation),
      plain_(decoding, prompt, tokenizer, wants_deltas),
      rules_(ShapingRules::For(decoding)),
      shaper_(*rules_, prompt),
      lookup_(prompt),
      lengths_{GuessLength(speculation.max_tokens()), GuessLength(speculation.max_tokens()),
               GuessLength(speculation.max_tokens())} {
  BEAMLINE_CHECK(decoding.kind == DecodingKind::kGreedy && decoding.num_sequences == 1);
  WriteRequests();
}

std::span<const Continuation> PromptLookupDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished() && results.size() == requests_.size());
  if (!participant_.has_value()) participant_.emplace(speculation_);
  size_t accepted = 0;
  while (true) {
    const std::span<const Continuation> next = plain_.Advance(results.subspan(accepted, 1));
    next_.assign(next.begin(), next.end());
    if (next.empty()) break;
    shaper_.Append(next[0].token);
    lookup_.Append(next[0].token);
    if (accepted == proposals_.size() || next[0].token != proposals_[accepted]) break;
    ++accepted;
  }
  Record(static_cast<int32_t>(accepted));
  if (next_.empty()) {
    participant_.reset();
    requests_.clear();
    return {};
  }
  next_[0].num_dropped = static_cast<int32_t>(proposals_.size() - accepted);
  const bool assumed = next_[0].assumed >= 0;  // its step is already running, without draft tokens
  proposals_.clear();
  if (!assumed) Propose();
  WriteRequests();
  next_[0].proposals = proposals_;
  return next_;
}

std::optional<std::span<const AssumedRow>> PromptLookupDecoder::Assume() {
  if (!proposals_.empty() || speculation_.share() > 0) return std::nullopt;
  return plain_.Assume();
}

void PromptLookupDecoder::Record(int32_t accepted) {
  if (proposals_.empty()) return;
  const auto proposed = static_cast<int32_t>(proposals_.size());
  speculation_.Count(proposed, accepted);
  lengths_[matched_ngram_ - 1].Record(proposed, accepted);
}

void PromptLookupDecoder::Propose() {
  // All but the last possible token may be drafts: nothing is computed after the last one.
  const int32_t room = max_new_tokens_ - num_generated_tokens() - 1;
  const int32_t num_tokens = prompt_tokens_ + num_generated_tokens();
  const int32_t most = std::min({room, speculation_.share(), speculation_.MostBehind(num_tokens)});
  if (most <= 0) return;
  const PromptLookup::Match match = lookup_.Find();
  if (match.ngram == 0) return;
  matched_ngram_ = match.ngram;
  proposals_ = lookup_.Copy(match.follower, std::min(most, lengths_[match.ngram - 1].Next()));
}

void PromptLookupDecoder::WriteRequests() {
  shapers_.clear();
  for (const int32_t token : proposals_) {
    shapers_.push_back(shapers_.empty() ? shaper_ : shapers_.back());
    shapers_.back().Append(token);
  }
  requests_.assign(1 + proposals_.size(), plain_.Requests().front());
  for (size_t i = 0; i < shapers_.size(); ++i) requests_[i + 1].edits = shapers_[i].edits();
}

void PromptLookupDecoder::Stop(FinishReason reason) {
  plain_.Stop(reason);
  participant_.reset();
  requests_.clear();
}

}  // namespace beamline
