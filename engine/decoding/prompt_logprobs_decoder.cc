#include "engine/decoding/prompt_logprobs_decoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {
namespace {

// A bias that lifts a token above all others, so that it is a candidate and its own logit is
// returned.
constexpr float kLift = 1e30f;

}  // namespace

PromptLogprobsDecoder::PromptLogprobsDecoder(std::unique_ptr<GroupDecoder> inner, TokenIds prompt,
                                             int32_t num_top, int32_t vocab_size,
                                             int32_t piece_tokens, int32_t tokens_per_row)
    : DecoderDecorator(std::move(inner)),
      prompt_(std::move(prompt)),
      num_top_(num_top),
      num_candidates_(std::min(num_top + 1, vocab_size)),
      piece_tokens_(piece_tokens) {
  BEAMLINE_CHECK(!prompt_.empty() && piece_tokens >= 1);
  const int32_t step_tokens = std::min(piece_tokens, static_cast<int32_t>(prompt_.size()));
  max_rows_ = std::max(this->inner().max_rows(), CeilDiv(step_tokens, tokens_per_row));
  logprobs_.reserve(prompt_.size() - 1);
  StartPiece(0);
}

TokenIds PromptLogprobsDecoder::first_piece() const {
  return {prompt_.begin(), prompt_.begin() + std::min<size_t>(piece_tokens_, prompt_.size())};
}

void PromptLogprobsDecoder::StartPiece(int32_t begin) {
  begin_ = begin;
  end_ = std::min(static_cast<int32_t>(prompt_.size()), begin + piece_tokens_);
  if (reads_prompt()) WriteRequests();
}

void PromptLogprobsDecoder::WriteRequests() {
  const auto size = static_cast<int32_t>(prompt_.size());
  edits_.clear();
  requests_.clear();
  // The logits after token i predict token i + 1; those after the last token are for the inner
  // decoder.
  for (int32_t i = begin_; i < end_ && i + 1 < size; ++i) {
    edits_.emplace_back().biases = {{prompt_[i + 1], kLift}};
  }
  for (const LogitsEdits& edits : edits_) {
    requests_.push_back({.edits = &edits, .num_candidates = num_candidates_});
  }
  if (end_ < size) return;
  const std::span<const RowRequest> of_inner = inner().Requests();
  requests_.insert(requests_.end(), of_inner.begin(), of_inner.end());
}

std::span<const RowRequest> PromptLogprobsDecoder::Requests() {
  return reads_prompt() ? requests_ : inner().Requests();
}

std::span<const Continuation> PromptLogprobsDecoder::Advance(std::span<const RowResult> results) {
  if (!reads_prompt()) return inner().Advance(results);
  BEAMLINE_CHECK(results.size() == requests_.size());
  for (size_t i = 0; i < edits_.size(); ++i) Record(results[i], prompt_[begin_ + 1 + i]);
  const size_t num_recorded = edits_.size();
  StartPiece(end_);
  if (!reads_prompt()) return inner().Advance(results.subspan(num_recorded));
  Continuation piece = {.parent = 0, .token = prompt_[begin_]};
  piece.proposals.assign(prompt_.begin() + begin_ + 1, prompt_.begin() + end_);
  next_piece_.assign(1, std::move(piece));
  return next_piece_;
}

void PromptLogprobsDecoder::Record(const RowResult& result, int32_t token) {
  PositionLogprobs position;
  position.top.reserve(result.ids.size());
  for (size_t i = 0; i < result.ids.size(); ++i) {
    const TokenChoice choice = CandidateChoice(result, i);
    if (choice.token == token) position.chosen = {choice.token, choice.logprob};
    position.top.push_back({choice.token, choice.logprob});
  }
  std::ranges::stable_sort(position.top, std::ranges::greater{}, &TokenLogprob::logprob);
  // One extra candidate was requested, because the prompt's token may not be among the most likely.
  if (position.top.size() > static_cast<size_t>(num_top_)) position.top.resize(num_top_);
  logprobs_.push_back(std::move(position));
}

}  // namespace beamline
