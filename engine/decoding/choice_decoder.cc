#include "engine/decoding/choice_decoder.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {
namespace {

// A bias above any logit, so that both tokens rank first. Their unbiased logits are returned, too.
constexpr float kFarAbove = 1e30f;

}  // namespace

ChoiceDecoder::ChoiceDecoder(int32_t first, int32_t second) {
  BEAMLINE_CHECK(first != second);
  choice_.ids = {first, second};
  for (const int32_t id : choice_.ids) {
    choice_.logprobs.push_back(
        {.chosen = {id, -std::numeric_limits<float>::infinity()}, .top = {}});
  }
  edits_.biases = {{first, kFarAbove}, {second, kFarAbove}};
  requests_.push_back({.edits = &edits_, .num_candidates = 2});
}

std::span<const Continuation> ChoiceDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished() && results.size() == 1);
  for (size_t i = 0; i < 2; ++i) {
    const TokenChoice token = CandidateChoice(results[0], i);
    // If a logit is -infinity (a bias in the checkpoint may be), other tokens can rank before it.
    for (PositionLogprobs& of : choice_.logprobs) {
      if (of.chosen.id == token.token) of.chosen.logprob = token.logprob;
    }
  }
  choice_.finish_reason = FinishReason::kLength;
  requests_.clear();
  return {};
}

void ChoiceDecoder::Stop(FinishReason reason) {
  if (finished()) return;
  choice_.finish_reason = reason;
  requests_.clear();
}

std::vector<GeneratedSequence> ChoiceDecoder::TakeSequences() {
  BEAMLINE_CHECK(finished());
  std::vector<GeneratedSequence> sequences;
  sequences.push_back(std::move(choice_));
  return sequences;
}

}  // namespace beamline
