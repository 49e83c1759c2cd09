#include "engine/decoding/independent_decoder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/decoding/finish_rules.h"

namespace beamline {

IndependentDecoder::IndependentDecoder(const ResolvedDecoding& decoding,
                                       std::span<const int32_t> prompt, const Tokenizer& tokenizer,
                                       bool wants_deltas)
    : decoding_(decoding),
      wants_deltas_(wants_deltas),
      stop_strings_(decoding.stop),
      rules_(ShapingRules::For(decoding)) {
  const LogitsShaper shaper(*rules_, prompt);
  sequences_.reserve(decoding.num_sequences);
  for (int32_t i = 0; i < decoding.num_sequences; ++i) {
    sequences_.push_back(
        {.result = {},
         .shaper = shaper,
         .text = SequenceText(tokenizer, stop_strings_, ResolvedTextOptions(decoding)),
         .delta = {.sequence = i, .ids = {}, .text = {}, .logprobs = {}},
         .next_shaper = std::nullopt});
  }
  live_.resize(decoding.num_sequences);
  std::iota(live_.begin(), live_.end(), 0);
  WriteRequests();
}

void IndependentDecoder::WriteRequests() {
  requests_.resize(first_step_ ? 1 : live_.size());
  for (size_t row = 0; row < requests_.size(); ++row) {
    const Sequence& sequence = sequences_[live_[row]];
    WriteRequest(sequence.shaper, live_[row], first_step_ ? decoding_.num_sequences : 1,
                 static_cast<uint32_t>(sequence.result.ids.size()), requests_[row]);
  }
}

void IndependentDecoder::WriteRequest(const LogitsShaper& shaper, int32_t first_sequence,
                                      int32_t num_draws, uint32_t position,
                                      RowRequest& request) const {
  request.edits = shaper.edits();
  request.num_candidates = std::clamp(
      decoding_.output.return_logprobs ? decoding_.output.logprobs : 1, 1, decoding_.vocab_size);
  request.samples.clear();
  if (decoding_.kind != DecodingKind::kSampling) return;
  for (int32_t draw = 0; draw < num_draws; ++draw) {
    request.samples.push_back({.row = 0,
                               .temperature = decoding_.temperature,
                               .top_k = decoding_.top_k,
                               .top_p = decoding_.top_p,
                               .min_p = decoding_.min_p,
                               .typical_p = decoding_.typical_p,
                               .seed = decoding_.seed,
                               .sequence = static_cast<uint32_t>(first_sequence + draw),
                               .position = position});
  }
}

std::optional<std::span<const AssumedRow>> IndependentDecoder::Assume() {
  if (rules_->depends_on_tokens()) return std::nullopt;
  assumed_.clear();
  assumed_requests_.resize(live_.size());
  for (size_t i = 0; i < live_.size(); ++i) {
    Sequence& sequence = sequences_[live_[i]];
    const auto position = static_cast<uint32_t>(sequence.result.ids.size()) + 1;
    if (static_cast<int32_t>(position) >= decoding_.max_new_tokens) continue;
    sequence.assumed = static_cast<int32_t>(assumed_.size());
    sequence.next_shaper = sequence.shaper;
    sequence.next_shaper->Append(kUnknownToken);
    AssumedRow& row = assumed_.emplace_back();
    row.parent = first_step_ ? 0 : static_cast<int32_t>(i);
    if (decoding_.kind == DecodingKind::kSampling) {
      row.choice = AssumedRow::Choice::kDraw;
      row.index = first_step_ ? static_cast<int32_t>(i) : 0;
    }
    WriteRequest(*sequence.next_shaper, live_[i], 1, position, assumed_requests_[i]);
    row.request = &assumed_requests_[i];
  }
  return assumed_;
}

std::span<const Continuation> IndependentDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished() && results.size() == requests_.size());
  continuations_.clear();
  next_live_.clear();
  for (size_t i = 0; i < live_.size(); ++i) {
    const size_t row = first_step_ ? 0 : i;
    const size_t draw = first_step_ ? i : 0;
    Sequence& sequence = sequences_[live_[i]];
    const TokenChoice choice = decoding_.kind == DecodingKind::kSampling
                                   ? SampledChoice(results[row], draw, requests_[row].edits)
                                   : CandidateChoice(results[row], 0);
    if (!choice.allowed()) {
      Finish(sequence, FinishReason::kLength);
      continue;
    }
    AppendToken(sequence, results[row], choice);
    if (const FinishReason reason = FinishAfter(sequence, choice.token);
        reason != FinishReason::kNone) {
      Finish(sequence, reason);
      continue;
    }
    next_live_.push_back(live_[i]);
    continuations_.push_back({.parent = static_cast<int32_t>(row),
                              .token = choice.token,
                              .assumed = std::exchange(sequence.assumed, -1)});
  }
  // Only now, because sequences of the first step share the edits with which they were sampled.
  for (const int32_t index : next_live_) AppendToShaper(sequences_[index]);
  live_.swap(next_live_);
  first_step_ = false;
  WriteRequests();
  return continuations_;
}

void IndependentDecoder::AppendToShaper(Sequence& sequence) {
  if (sequence.next_shaper.has_value()) {
    sequence.shaper = *std::move(sequence.next_shaper);
    sequence.next_shaper.reset();
  } else {
    sequence.shaper.Append(sequence.result.ids.back());
  }
}

void IndependentDecoder::AppendToken(Sequence& sequence, const RowResult& row,
                                     const TokenChoice& choice) {
  ++num_generated_tokens_;
  GeneratedSequence& result = sequence.result;
  result.ids.push_back(choice.token);
  result.cumulative_logprob += choice.logprob;
  if (wants_deltas_) sequence.delta.ids.push_back(choice.token);
  if (!decoding_.output.return_logprobs) return;
  result.logprobs.push_back({.chosen = {choice.token, choice.logprob},
                             .top = TopLogprobs(row, decoding_.output.logprobs)});
  if (wants_deltas_) sequence.delta.logprobs.push_back(result.logprobs.back());
}

FinishReason IndependentDecoder::FinishAfter(Sequence& sequence, int32_t token) {
  const auto num_tokens = static_cast<int32_t>(sequence.result.ids.size());
  const FinishReason reason = FinishAtToken(decoding_, token, num_tokens);
  if (TokenHasText(decoding_, reason) &&
      sequence.text.Append(token, StopStringCounts(decoding_, num_tokens))) {
    return FinishReason::kStop;
  }
  if (reason == FinishReason::kNone && wants_deltas_) TakeText(sequence);
  return reason;
}

void IndependentDecoder::TakeText(Sequence& sequence) {
  const std::string certain = sequence.text.TakeCertain();
  sequence.result.text += certain;
  if (wants_deltas_) sequence.delta.text += certain;
}

void IndependentDecoder::Finish(Sequence& sequence, FinishReason reason) {
  sequence.text.Finish();
  TakeText(sequence);
  sequence.result.finish_reason = reason;
  sequence.result.score = static_cast<float>(sequence.result.cumulative_logprob);
}

void IndependentDecoder::Stop(FinishReason reason) {
  for (const int32_t index : live_) Finish(sequences_[index], reason);
  live_.clear();
  requests_.clear();
}

std::vector<GenerateDelta> IndependentDecoder::TakeDeltas() {
  std::vector<GenerateDelta> deltas;
  if (!wants_deltas_) return deltas;
  for (Sequence& sequence : sequences_) {
    GenerateDelta& delta = sequence.delta;
    if (delta.ids.empty() && delta.text.empty()) continue;
    const int32_t index = delta.sequence;
    deltas.push_back(
        std::exchange(delta, {.sequence = index, .ids = {}, .text = {}, .logprobs = {}}));
  }
  return deltas;
}

std::vector<GeneratedSequence> IndependentDecoder::TakeSequences() {
  BEAMLINE_CHECK(finished());
  std::vector<GeneratedSequence> taken;
  taken.reserve(sequences_.size());
  for (Sequence& sequence : sequences_) taken.push_back(std::move(sequence.result));
  return taken;
}

}  // namespace beamline
