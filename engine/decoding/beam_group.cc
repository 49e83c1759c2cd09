// One step, with B = width:
// 1. The score of a candidate is its log-probability plus its beam's score. The log-probability
//    is taken after the edits, normalised again only if the model sets renormalize_logits. The
//    candidates of all rows are ranked together (ties: lower row, lower id).
// 2. A candidate that ends (end token, stop, length limit) becomes a hypothesis if its rank is
//    below B and its score / length ^ length_penalty is among the best B so far.
// 3. The best B candidates that do not end are the next beams.
// 4. The search is over when no beam is left; when B hypotheses have ended (kEager); or when the
//    best beam, at its present length (kExhaustive with a positive penalty: at the longest), would
//    not beat the worst of B hypotheses.
//
// transformers considers max(2, 1 + ends) * B candidates, where `ends` counts the end tokens, so
// that at least B of them continue. Within one row, at most B candidates that do not end can
// matter. So B + ends candidates per row give the same result.
//
// transformers' group search is older than its plain search and differs in two points:
// - The step's best candidate decides whether the search is over, even if that candidate has ended.
// - At the length limit the live beams become hypotheses only if the search is not over by then.
#include "engine/decoding/beam_group.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/decoding/finish_rules.h"
#include "kernels/beam_order.h"

namespace beamline {

BeamGroup::BeamGroup(const ResolvedDecoding& decoding, HypothesisTree& tree, Beam first)
    : decoding_(decoding),
      tree_(tree),
      width_(decoding.beam_width / decoding.num_beam_groups),
      max_ranks_(std::max(2, 1 + NumFinishingTokens(decoding)) * width_),
      of_many_(decoding.num_beam_groups > 1) {
  // Any token may complete a stop string. So this takes as many candidates as transformers
  // considers, plus the tokens that end only this request.
  const auto ends = static_cast<int32_t>(decoding.eos_token_ids.size());
  const int32_t own_ends = NumFinishingTokens(decoding) - ends;
  num_candidates_ = first.text != nullptr ? std::max(2, 1 + ends) * width_ + own_ends
                                          : width_ + NumFinishingTokens(decoding);
  beams_.push_back(std::move(first));
}

void BeamGroup::Advance(std::span<const RowResult> found, std::span<const RowResult> ranked,
                        int32_t first_row, std::vector<Continuation>& continuations) {
  ++num_steps_;
  row_tops_.assign(found.size(), -1);
  ChooseSurvivors(found, ranked);
  if (survivors_.empty() && hypotheses_.empty()) {
    // All tokens are banned: the beams end as they are.
    Stop(FinishReason::kLength);
    return;
  }
  const bool over = survivors_.empty() || !CanImprove();
  if (!over && num_steps_ < decoding_.max_new_tokens) {
    ContinueBeams(found, first_row, continuations);
    return;
  }
  if (!over) KeepSurvivors(found);
  beams_.clear();
}

void BeamGroup::ChooseSurvivors(std::span<const RowResult> found,
                                std::span<const RowResult> ranked) {
  survivors_.clear();
  heads_.clear();
  const auto after = [](const Candidate& a, const Candidate& b) {
    return GoesBefore(b.score, b.row, a.score, a.row);
  };
  const auto push = [&](int32_t row, int32_t index) {
    if (index >= static_cast<int32_t>(ranked[row].ids.size())) return;
    const TokenChoice choice = CandidateChoice(ranked[row], index);
    if (!choice.allowed()) return;
    heads_.push_back({BeamScore(choice.score, beams_[row].score), row, index, choice});
    std::ranges::push_heap(heads_, after);
  };
  for (int32_t row = 0; row < static_cast<int32_t>(ranked.size()); ++row) push(row, 0);
  if (!heads_.empty()) best_score_ = heads_.front().score;

  const auto width = static_cast<size_t>(width_);
  for (int32_t rank = 0; rank < max_ranks_ && !heads_.empty(); ++rank) {
    const bool may_end = rank < width_;
    if (!may_end && survivors_.size() == width) break;
    std::ranges::pop_heap(heads_, after);
    const Candidate candidate = heads_.back();
    heads_.pop_back();
    push(candidate.row, candidate.index + 1);

    std::unique_ptr<SequenceText> text;
    const FinishReason reason = FinishAfter(candidate, text);
    if (reason == FinishReason::kNone) {
      if (survivors_.size() < width) survivors_.push_back({candidate, std::move(text)});
    } else if (may_end) {
      const float score = NormalizedScore(candidate.score, num_steps_);
      if (Keeps(score)) Keep({AddNode(candidate, found[candidate.row]), score, reason});
    }
  }
}

FinishReason BeamGroup::FinishAfter(const Candidate& candidate,
                                    std::unique_ptr<SequenceText>& text) const {
  FinishReason reason = FinishAtToken(decoding_, candidate.choice.token, num_steps_);
  if (of_many_ && reason == FinishReason::kLength) reason = FinishReason::kNone;  // KeepSurvivors
  const Beam& beam = beams_[candidate.row];
  if (beam.text == nullptr || !TokenHasText(decoding_, reason)) return reason;
  text = std::make_unique<SequenceText>(beam.text->Clone());
  if (text->Append(candidate.choice.token, StopStringCounts(decoding_, num_steps_))) {
    return FinishReason::kStop;
  }
  static_cast<void>(text->TakeCertain());  // keeps only text that may still become a stop string
  return reason;
}

int32_t BeamGroup::AddNode(const Candidate& candidate, const RowResult& row) {
  int32_t& top = row_tops_[candidate.row];
  if (top < 0 && decoding_.output.return_logprobs) {
    top = tree_.AddTop(TopLogprobs(row, decoding_.output.logprobs));
  }
  return tree_.Add(beams_[candidate.row].node, candidate.choice.token, candidate.choice.logprob,
                   top);
}

void BeamGroup::ContinueBeams(std::span<const RowResult> found, int32_t first_row,
                              std::vector<Continuation>& continuations) {
  row_uses_.assign(beams_.size(), 0);
  for (const Survivor& survivor : survivors_) ++row_uses_[survivor.candidate.row];

  next_beams_.clear();
  for (Survivor& survivor : survivors_) {
    const Candidate& candidate = survivor.candidate;
    LogitsShaper& parent = beams_[candidate.row].shaper;
    // The last child takes over the parent's state.
    const bool last_use = --row_uses_[candidate.row] == 0;
    next_beams_.push_back({.node = AddNode(candidate, found[candidate.row]),
                           .score = candidate.score,
                           .shaper = last_use ? std::move(parent) : parent,
                           .text = std::move(survivor.text)});
    next_beams_.back().shaper.Append(candidate.choice.token);
    continuations.push_back({first_row + candidate.row, candidate.choice.token});
  }
  beams_.swap(next_beams_);
}

float BeamGroup::NormalizedScore(float score, int32_t length) const {
  if (length == 0) return score;
  return static_cast<float>(
      score / std::pow(static_cast<double>(length), static_cast<double>(decoding_.length_penalty)));
}

bool BeamGroup::Keeps(float score) const {
  return hypotheses_.size() < static_cast<size_t>(width_) || score > hypotheses_.back().score;
}

void BeamGroup::Keep(const Hypothesis& hypothesis) {
  // After hypotheses with an equal score: the older one wins.
  const auto place = std::ranges::upper_bound(hypotheses_, hypothesis.score, std::ranges::greater{},
                                              &Hypothesis::score);
  hypotheses_.insert(place, hypothesis);
  if (hypotheses_.size() > static_cast<size_t>(width_)) hypotheses_.pop_back();
}

void BeamGroup::KeepSurvivors(std::span<const RowResult> found) {
  for (const Survivor& survivor : survivors_) {
    const Candidate& candidate = survivor.candidate;
    const float score = NormalizedScore(candidate.score, num_steps_);
    if (!Keeps(score)) continue;
    Keep({AddNode(candidate, found[candidate.row]), score, FinishReason::kLength});
  }
}

bool BeamGroup::CanImprove() const {
  if (hypotheses_.size() < static_cast<size_t>(width_)) return true;
  if (decoding_.early_stopping == EarlyStopping::kEager) return false;
  const bool at_longest =
      decoding_.early_stopping == EarlyStopping::kExhaustive && decoding_.length_penalty > 0.0f;
  const int32_t length = at_longest ? decoding_.max_new_tokens : num_steps_;
  const float best = of_many_ ? best_score_ : survivors_.front().candidate.score;
  return NormalizedScore(best, length) > hypotheses_.back().score;
}

void BeamGroup::CountChosen(HammingDiversity& diversity) const {
  for (const Survivor& survivor : survivors_) diversity.Count(survivor.candidate.choice.token, 1);
}

void BeamGroup::Stop(FinishReason reason) {
  for (const Beam& beam : beams_) {
    const float score = NormalizedScore(beam.score, tree_[beam.node].length);
    if (Keeps(score)) Keep({beam.node, score, reason});
  }
  beams_.clear();
}

}  // namespace beamline
