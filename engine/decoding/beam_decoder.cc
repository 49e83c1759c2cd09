#include "engine/decoding/beam_decoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/decoding/finish_rules.h"

namespace beamline {
namespace {

static_assert(sizeof(BeamDecoder) < 1008);

// Steps for which the hypothesis tree reserves memory at the start.
constexpr int32_t kUsualSteps = 64;

}  // namespace

BeamDecoder::BeamDecoder(const ResolvedDecoding& decoding, std::span<const int32_t> prompt,
                         const Tokenizer& tokenizer, bool wants_deltas)
    : decoding_(decoding),
      tokenizer_(tokenizer),
      wants_deltas_(wants_deltas),
      stop_strings_(decoding.stop),
      rules_(ShapingRules::For(decoding)) {
  if (decoding.num_beam_groups > 1) {
    diversity_ = std::make_unique<HammingDiversity>(decoding.diversity_penalty);
  }
  if (wants_deltas) {
    settled_text_.emplace(tokenizer, stop_strings_, ResolvedTextOptions(decoding));
  }
  const LogitsShaper shaper(*rules_, prompt);
  runs_ahead_ =
      decoding.num_beam_groups == 1 && stop_strings_.empty() && !rules_->depends_on_tokens();
  end_ids_ = decoding.eos_token_ids;
  end_ids_.insert(end_ids_.end(), decoding.stop_token_ids.begin(), decoding.stop_token_ids.end());
  groups_.reserve(decoding.num_beam_groups);
  for (int32_t i = 0; i < decoding.num_beam_groups; ++i) {
    BeamGroup::Beam first{.shaper = shaper};
    if (!stop_strings_.empty()) {
      first.text = std::make_unique<SequenceText>(tokenizer, stop_strings_,
                                                  TextOptions{.skip_special_tokens = false});
    }
    groups_.emplace_back(decoding_, tree_, std::move(first));
  }
  WriteRequests();
}

int32_t BeamDecoder::NumCandidates(size_t group) const {
  int32_t count = groups_[group].num_candidates();
  if (decoding_.output.return_logprobs) count = std::max(count, decoding_.output.logprobs);
  // One more for each token that earlier groups may have penalised.
  count += static_cast<int32_t>(group) * groups_[group].width();
  return std::min({count, decoding_.vocab_size, kMaxCandidates});
}

void BeamDecoder::WriteRequests() {
  requests_.clear();
  if (runs_ahead_) WriteScores();
  const auto add = [this](const BeamGroup::Beam& beam, size_t group) {
    WriteRequest(beam.shaper, group, requests_.emplace_back());
  };
  if (num_steps_ == 0) {
    add(groups_.back().beams().front(), groups_.size() - 1);
    return;
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (const BeamGroup::Beam& beam : groups_[group].beams()) add(beam, group);
  }
}

void BeamDecoder::WriteScores() {
  const std::span<const BeamGroup::Beam> beams = groups_[0].beams();
  scores_.resize(beams.size());
  std::ranges::transform(beams, scores_.begin(), &BeamGroup::Beam::score);
}

void BeamDecoder::WriteRequest(const LogitsShaper& shaper, size_t group,
                               RowRequest& request) const {
  request.edits = shaper.edits();
  request.normalize_first = true;
  request.renormalize = decoding_.renormalize;
  request.num_candidates = NumCandidates(group);
}

std::optional<BeamRequest> BeamDecoder::Beams() {
  if (!runs_ahead_) return std::nullopt;
  return BeamRequest{.width = decoding_.beam_width,
                     .scores = scores_,
                     .end_ids = end_ids_,
                     .renormalize = decoding_.renormalize};
}

std::optional<std::span<const AssumedRow>> BeamDecoder::Assume() {
  if (!runs_ahead_) return std::nullopt;
  const std::span<const BeamGroup::Beam> beams = groups_[0].beams();
  // Fewer beams exist if bans left fewer; their future rows have no blocks of their own yet.
  const auto width = static_cast<size_t>(decoding_.beam_width);
  if (beams.size() != 1 && beams.size() != width) return std::nullopt;
  assumed_.clear();
  if (num_steps_ + 1 >= decoding_.max_new_tokens) return assumed_;
  next_shaper_ = beams.front().shaper;
  next_shaper_->Append(kUnknownToken);
  WriteRequest(*next_shaper_, 0, assumed_request_);
  for (size_t i = 0; i < width; ++i) {
    AssumedRow& row = assumed_.emplace_back();
    row.parent = static_cast<int32_t>(std::min(i, beams.size() - 1));
    row.choice = AssumedRow::Choice::kBeam;
    row.index = static_cast<int32_t>(i);
    row.request = &assumed_request_;
  }
  return assumed_;
}

std::span<const Continuation> BeamDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished_ && results.size() == requests_.size());
  continuations_.clear();
  if (num_steps_ == 0) {
    const int32_t steps = std::min(decoding_.max_new_tokens, kUsualSteps);
    tree_.Reserve(1 + static_cast<size_t>(decoding_.beam_width) * steps);
  }
  if (diversity_ != nullptr) diversity_->StartStep();
  size_t first_row = 0;
  for (BeamGroup& group : groups_) {
    const size_t num_rows = group.beams().size();
    if (num_rows == 0) {
      if (diversity_ != nullptr) diversity_->Count(decoding_.pad_token_id, group.width());
      continue;
    }
    const std::span<const RowResult> rows = results.subspan(first_row, num_rows);
    group.Advance(rows, Rank(group, rows), static_cast<int32_t>(first_row), continuations_);
    if (diversity_ != nullptr) group.CountChosen(*diversity_);
    if (num_steps_ > 0) first_row += num_rows;
  }
  ++num_steps_;
  if (!assumed_.empty()) {
    for (size_t i = 0; i < continuations_.size(); ++i) {
      continuations_[i].assumed = static_cast<int32_t>(i);
    }
    assumed_.clear();
  }
  if (continuations_.empty()) {
    Finish();
    return {};
  }
  if (wants_deltas_) SettlePrefix();
  WriteRequests();
  return continuations_;
}

std::span<const RowResult> BeamDecoder::Rank(const BeamGroup& group,
                                             std::span<const RowResult> rows) {
  if (diversity_ == nullptr) return rows;
  ranked_.clear();
  for (size_t row = 0; row < rows.size(); ++row) {
    ranked_.push_back(diversity_->Rank(rows[row], group.beams()[row].shaper));
  }
  return ranked_;
}

void BeamDecoder::SettlePrefix() {
  // Sequence 0 will be the best hypothesis so far, or descend from a live beam.
  ancestors_.clear();
  const BeamGroup::Hypothesis* best = nullptr;
  for (const BeamGroup& group : groups_) {
    for (const BeamGroup::Beam& beam : group.beams()) ancestors_.push_back(beam.node);
    if (group.hypotheses().empty()) continue;
    const BeamGroup::Hypothesis& first = group.hypotheses().front();
    if (best == nullptr || first.score > best->score) best = &first;
  }
  if (best != nullptr) ancestors_.push_back(best->node);
  const int32_t settled = tree_.CommonAncestor(ancestors_);
  if (settled == settled_) return;

  if (deltas_.empty()) deltas_.emplace_back();
  GenerateDelta& delta = deltas_.front();
  for (const int32_t node : tree_.Path(settled_, settled)) {
    const int32_t token = tree_[node].token;
    delta.ids.push_back(token);
    if (decoding_.output.return_logprobs) delta.logprobs.push_back(tree_.Logprobs(node));
    // A prefix of live beams contains no stop string that counts.
    BEAMLINE_CHECK(!settled_text_->Append(token, StopStringCounts(decoding_, tree_[node].length)));
  }
  settled_ = settled;
  const std::string certain = settled_text_->TakeCertain();
  settled_bytes_ += certain.size();
  delta.text += certain;
}

void BeamDecoder::Stop(FinishReason reason) {
  if (finished_) return;
  for (BeamGroup& group : groups_) group.Stop(reason);
  Finish();
}

void BeamDecoder::Finish() {
  finished_ = true;
  requests_.clear();
  for (const BeamGroup& group : groups_) {
    answer_.insert(answer_.end(), group.hypotheses().begin(), group.hypotheses().end());
  }
  std::ranges::stable_sort(answer_, std::ranges::greater{}, &BeamGroup::Hypothesis::score);
  if (answer_.size() > static_cast<size_t>(decoding_.num_sequences)) {
    answer_.resize(decoding_.num_sequences);
  }
  for (const BeamGroup::Hypothesis& hypothesis : answer_) {
    sequences_.push_back(BuildSequence(hypothesis));
  }
  if (wants_deltas_) StreamRest();
}

// Streams the text after the settled prefix.
void BeamDecoder::StreamRest() {
  const auto settled_ids = static_cast<size_t>(tree_[settled_].length);
  for (size_t i = 0; i < sequences_.size(); ++i) {
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

GeneratedSequence BeamDecoder::BuildSequence(const BeamGroup::Hypothesis& hypothesis) const {
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
    if (!TokenHasText(decoding_, reason)) continue;
    static_cast<void>(text.Append(position.token, StopStringCounts(decoding_, position.length)));
  }
  text.Finish();
  sequence.text = text.TakeCertain();
  return sequence;
}

int32_t BeamDecoder::num_generated_tokens() const {
  if (!finished_) return num_steps_ * decoding_.num_sequences;
  int32_t count = 0;
  for (const BeamGroup::Hypothesis& hypothesis : answer_) count += tree_[hypothesis.node].length;
  return count;
}

std::vector<GenerateDelta> BeamDecoder::TakeDeltas() { return std::exchange(deltas_, {}); }

std::vector<GeneratedSequence> BeamDecoder::TakeSequences() {
  BEAMLINE_CHECK(finished_);
  return std::move(sequences_);
}

}  // namespace beamline
