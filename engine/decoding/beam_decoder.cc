// One step, with B = beam_width:
// 1. Every row's candidates score their log-probability (after the edits, not normalised again)
//    plus their beam's score; all rows are ranked together (ties: lower row, lower id).
// 2. A candidate that ends (end token, stop, length limit) becomes a hypothesis if its rank is
//    below B and its score / length ^ length_penalty is among the best B so far.
// 3. The best B candidates that do not end are the next beams.
// 4. The search is over when no beam is left; when B hypotheses have ended (kEager); or when the
//    best beam, at its present length (kExhaustive with a positive penalty: at the longest), would
//    not beat the worst of B hypotheses.
//
// transformers looks at max(2, 1 + ends) * B candidates, where `ends` counts the end tokens,
// because B of these are sure to go on. Of one row, only B can rank below B or go on, besides the
// tokens that end: B + ends candidates of each row give the same result.
#include "engine/decoding/beam_decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/decoding/finish_rules.h"
#include "kernels/check.h"

namespace beamline {

BeamDecoder::BeamDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                         const Tokenizer& tokenizer, bool wants_deltas)
    : decoding_(decoding),
      tokenizer_(tokenizer),
      wants_deltas_(wants_deltas),
      stop_strings_(decoding.stop),
      max_ranks_(std::max(2, 1 + NumFinishingTokens(decoding)) * decoding.beam_width),
      settled_text_(tokenizer, stop_strings_, ResolvedTextOptions(decoding)) {
  // Any token may complete a stop string: then the ranks themselves are the bound.
  num_candidates_ =
      stop_strings_.empty() ? decoding.beam_width + NumFinishingTokens(decoding) : max_ranks_;
  if (decoding.output.return_logprobs) {
    num_candidates_ = std::max(num_candidates_, decoding.output.logprobs);
  }
  num_candidates_ = std::min(num_candidates_, decoding.vocab_size);
  Beam first{.shaper = LogitsShaper(std::make_shared<const ShapingRules>(decoding), prompt)};
  if (!stop_strings_.empty()) {
    first.text.emplace(tokenizer, stop_strings_, ResolvedTextOptions(decoding));
  }
  beams_.push_back(std::move(first));
  WriteRequests();
}

void BeamDecoder::WriteRequests() {
  requests_.resize(beams_.size());
  for (size_t row = 0; row < beams_.size(); ++row) {
    requests_[row].edits = beams_[row].shaper.edits();
    requests_[row].normalize_first = true;
    requests_[row].num_candidates = num_candidates_;
  }
}

std::vector<Continuation> BeamDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished_ && results.size() == beams_.size());
  row_tops_.assign(results.size(), -1);
  ChooseSurvivors(results);
  ++num_steps_;
  if (survivors_.empty() && hypotheses_.empty()) {
    // Every token is banned: the beams end as they are.
    KeepLiveBeams(FinishReason::kLength);
  }
  if (survivors_.empty() || !CanImprove()) {
    Finish();
    return {};
  }
  std::vector<Continuation> continuations = ContinueBeams(results);
  if (wants_deltas_) SettlePrefix();
  WriteRequests();
  return continuations;
}

void BeamDecoder::ChooseSurvivors(std::span<const RowResult> results) {
  survivors_.clear();
  heads_.clear();
  const auto after = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.row > b.row;
  };
  const auto push = [&](int32_t row, int32_t index) {
    if (index >= static_cast<int32_t>(results[row].ids.size())) return;
    const TokenChoice choice = CandidateChoice(results[row], index);
    if (!choice.allowed()) return;
    heads_.push_back({choice.score + beams_[row].score, row, index, choice});
    std::ranges::push_heap(heads_, after);
  };
  for (int32_t row = 0; row < static_cast<int32_t>(results.size()); ++row) push(row, 0);

  const auto width = static_cast<size_t>(decoding_.beam_width);
  for (int32_t rank = 0; rank < max_ranks_ && !heads_.empty(); ++rank) {
    const bool may_end = rank < decoding_.beam_width;
    if (!may_end && survivors_.size() == width) break;
    std::ranges::pop_heap(heads_, after);
    const Candidate candidate = heads_.back();
    heads_.pop_back();
    push(candidate.row, candidate.index + 1);

    std::optional<SequenceText> text;
    const FinishReason reason = FinishAfter(candidate, text);
    if (reason == FinishReason::kNone) {
      if (survivors_.size() < width) survivors_.push_back({candidate, std::move(text)});
    } else if (may_end) {
      const float score = NormalizedScore(candidate.score, num_steps_ + 1);
      if (Keeps(score)) Keep({AddNode(candidate, results[candidate.row]), score, reason});
    }
  }
}

FinishReason BeamDecoder::FinishAfter(const Candidate& candidate,
                                      std::optional<SequenceText>& text) const {
  const FinishReason reason = FinishAtToken(decoding_, candidate.choice.token, num_steps_ + 1);
  const Beam& beam = beams_[candidate.row];
  if (!beam.text.has_value() || !TokenHasText(decoding_, reason)) return reason;
  text.emplace(beam.text->Clone());
  if (text->Append(candidate.choice.token)) return FinishReason::kStop;
  static_cast<void>(text->TakeCertain());  // only what may still become a stop string is needed
  return reason;
}

int32_t BeamDecoder::AddNode(const Candidate& candidate, const RowResult& row) {
  int32_t& top = row_tops_[candidate.row];
  if (top < 0 && decoding_.output.return_logprobs) {
    top = tree_.AddTop(TopLogprobs(row, decoding_.output.logprobs));
  }
  return tree_.Add(beams_[candidate.row].node, candidate.choice.token, candidate.choice.logprob,
                   top);
}

std::vector<Continuation> BeamDecoder::ContinueBeams(std::span<const RowResult> results) {
  row_uses_.assign(beams_.size(), 0);
  for (const Survivor& survivor : survivors_) ++row_uses_[survivor.candidate.row];

  std::vector<Continuation> continuations;
  continuations.reserve(survivors_.size());
  next_beams_.clear();
  for (Survivor& survivor : survivors_) {
    const Candidate& candidate = survivor.candidate;
    LogitsShaper& parent = beams_[candidate.row].shaper;
    // The last child takes the parent's state over.
    const bool last_use = --row_uses_[candidate.row] == 0;
    next_beams_.push_back({.node = AddNode(candidate, results[candidate.row]),
                           .score = candidate.score,
                           .shaper = last_use ? std::move(parent) : parent,
                           .text = std::move(survivor.text)});
    next_beams_.back().shaper.Append(candidate.choice.token);
    continuations.push_back({candidate.row, candidate.choice.token});
  }
  beams_.swap(next_beams_);
  return continuations;
}

float BeamDecoder::NormalizedScore(float score, int32_t length) const {
  if (length == 0) return score;
  return static_cast<float>(
      score / std::pow(static_cast<double>(length), static_cast<double>(decoding_.length_penalty)));
}

bool BeamDecoder::Keeps(float score) const {
  return hypotheses_.size() < static_cast<size_t>(decoding_.beam_width) ||
         score > hypotheses_.back().score;
}

void BeamDecoder::Keep(const Hypothesis& hypothesis) {
  // Behind its equals: the older one wins.
  const auto place = std::ranges::upper_bound(hypotheses_, hypothesis.score, std::ranges::greater{},
                                              &Hypothesis::score);
  hypotheses_.insert(place, hypothesis);
  if (hypotheses_.size() > static_cast<size_t>(decoding_.beam_width)) hypotheses_.pop_back();
}

void BeamDecoder::KeepLiveBeams(FinishReason reason) {
  for (const Beam& beam : beams_) {
    const float score = NormalizedScore(beam.score, tree_[beam.node].length);
    if (Keeps(score)) Keep({beam.node, score, reason});
  }
}

bool BeamDecoder::CanImprove() const {
  if (hypotheses_.size() < static_cast<size_t>(decoding_.beam_width)) return true;
  if (decoding_.early_stopping == EarlyStopping::kEager) return false;
  const bool at_longest =
      decoding_.early_stopping == EarlyStopping::kExhaustive && decoding_.length_penalty > 0.0f;
  const int32_t length = at_longest ? decoding_.max_new_tokens : num_steps_;
  return NormalizedScore(survivors_.front().candidate.score, length) > hypotheses_.back().score;
}

void BeamDecoder::SettlePrefix() {
  // Sequence 0 will be the best hypothesis so far or descend from a live beam.
  ancestors_.clear();
  for (const Beam& beam : beams_) ancestors_.push_back(beam.node);
  if (!hypotheses_.empty()) ancestors_.push_back(hypotheses_.front().node);
  const int32_t settled = tree_.CommonAncestor(ancestors_);
  if (settled == settled_) return;

  if (deltas_.empty()) deltas_.emplace_back();
  GenerateDelta& delta = deltas_.front();
  for (const int32_t node : tree_.Path(settled_, settled)) {
    const int32_t token = tree_[node].token;
    delta.ids.push_back(token);
    if (decoding_.output.return_logprobs) delta.logprobs.push_back(tree_.Logprobs(node));
    BEAMLINE_CHECK(!settled_text_.Append(token));  // a prefix of live beams holds no stop string
  }
  settled_ = settled;
  const std::string certain = settled_text_.TakeCertain();
  settled_bytes_ += certain.size();
  delta.text += certain;
}

void BeamDecoder::Stop(FinishReason reason) {
  if (finished_) return;
  KeepLiveBeams(reason);
  Finish();
}

void BeamDecoder::Finish() {
  finished_ = true;
  beams_.clear();
  requests_.clear();
  const size_t count = std::min(hypotheses_.size(), static_cast<size_t>(decoding_.num_sequences));
  for (size_t i = 0; i < count; ++i) sequences_.push_back(BuildSequence(hypotheses_[i]));
  if (!wants_deltas_) return;

  // What the settled prefix has not told yet.
  const auto settled_ids = static_cast<size_t>(tree_[settled_].length);
  for (size_t i = 0; i < count; ++i) {
    const GeneratedSequence& sequence = sequences_[i];
    const size_t ids = i == 0 ? settled_ids : 0;
    const size_t bytes = i == 0 ? settled_bytes_ : 0;
    if (ids == sequence.ids.size() && bytes == sequence.text.size()) continue;
    if (i > 0 || deltas_.empty()) deltas_.emplace_back().sequence = static_cast<int32_t>(i);
    GenerateDelta& delta = deltas_.back();
    delta.ids.insert(delta.ids.end(), sequence.ids.begin() + ids, sequence.ids.end());
    delta.text.append(sequence.text, bytes);
    if (decoding_.output.return_logprobs) {
      delta.logprobs.insert(delta.logprobs.end(), sequence.logprobs.begin() + ids,
                            sequence.logprobs.end());
    }
  }
}

GeneratedSequence BeamDecoder::BuildSequence(const Hypothesis& hypothesis) const {
  GeneratedSequence sequence;
  sequence.score = hypothesis.score;
  sequence.finish_reason = hypothesis.reason;
  SequenceText text(tokenizer_, stop_strings_, ResolvedTextOptions(decoding_));
  for (const int32_t node : tree_.Path(HypothesisTree::kRoot, hypothesis.node)) {
    const HypothesisTree::Node& position = tree_[node];
    sequence.ids.push_back(position.token);
    sequence.cumulative_logprob += position.logprob;
    if (decoding_.output.return_logprobs) sequence.logprobs.push_back(tree_.Logprobs(node));
    const FinishReason reason = FinishAtToken(decoding_, position.token, position.length);
    if (TokenHasText(decoding_, reason)) static_cast<void>(text.Append(position.token));
  }
  text.Finish();
  sequence.text = text.TakeCertain();
  return sequence;
}

int32_t BeamDecoder::num_generated_tokens() const {
  if (!finished_) return num_steps_ * decoding_.num_sequences;
  size_t count = 0;
  const auto returned = std::min(hypotheses_.size(), static_cast<size_t>(decoding_.num_sequences));
  for (size_t i = 0; i < returned; ++i) count += tree_[hypotheses_[i].node].length;
  return static_cast<int32_t>(count);
}

std::vector<GenerateDelta> BeamDecoder::TakeDeltas() { return std::exchange(deltas_, {}); }

std::vector<GeneratedSequence> BeamDecoder::TakeSequences() {
  BEAMLINE_CHECK(finished_);
  return std::move(sequences_);
}

}  // namespace beamline
