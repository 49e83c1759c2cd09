#include "engine/decoding/score_decoder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "engine/decoding/token_logprobs.h"

namespace beamline {

ScoreDecoder::ScoreDecoder(int32_t last_prompt_token, std::vector<TokenIds> continuations,
                           const ScoreLimits& limits)
    : last_prompt_token_(last_prompt_token), limits_(limits) {
  BEAMLINE_CHECK(!continuations.empty() && limits.max_step_tokens >= limits.max_rows &&
                 limits.tokens_per_row >= 1);
  int64_t num_tokens = 0;
  for (TokenIds& ids : continuations) {
    BEAMLINE_CHECK(!ids.empty());
    num_tokens += static_cast<int64_t>(ids.size());
    GeneratedSequence score;
    score.ids = std::move(ids);
    score.logprobs.reserve(score.ids.size());
    scores_.push_back(std::move(score));
  }
  const int64_t step_tokens = std::min<int64_t>(limits.max_step_tokens, num_tokens);
  const int64_t most_rows =
      std::min(int64_t{limits.max_rows}, static_cast<int64_t>(scores_.size()));
  max_rows_ = static_cast<int32_t>(
      std::max(most_rows, CeilDiv(step_tokens, int64_t{limits.tokens_per_row})));
  order_.resize(scores_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_partition(order_, [this](int32_t index) { return !IsLong(index); });
  const TokenIds& first = scores_[order_[0]].ids;
  const int32_t end = std::min(static_cast<int32_t>(first.size()), limits.max_step_tokens);
  first_proposals_.assign(first.begin(), first.begin() + end - 1);
  rows_.push_back({.continuation = order_[0], .begin = 0, .end = end});
  num_begun_ = 1;
  WriteRequests();
}

int32_t ScoreDecoder::given_length() const {
  int32_t length = 0;
  for (const Row& row : rows_) length = std::max(length, TotalLength(row.continuation));
  return length;
}

void ScoreDecoder::WriteRequests() {
  requests_.clear();
  edits_.clear();
  for (const Row& row : rows_) {
    for (int32_t i = row.begin; i < row.end; ++i) {
      edits_.emplace_back().forced_id = scores_[row.continuation].ids[i];
    }
  }
  // Nothing else reads the logits afterwards, so they may be normalised first.
  for (const LogitsEdits& edits : edits_) {
    requests_.push_back({.edits = &edits, .normalize_first = true});
  }
}

std::span<const Continuation> ScoreDecoder::Advance(std::span<const RowResult> results) {
  BEAMLINE_CHECK(!finished() && results.size() == requests_.size());
  for (const Row& row : rows_) {
    const size_t count = row.end - row.begin;
    Record(row, results.first(count));
    results = results.subspan(count);
  }
  std::vector<Row> next;
  continuations_.clear();
  int32_t free_tokens = limits_.max_step_tokens;
  const auto add = [&](int32_t parent, int32_t continuation, int32_t begin) {
    Row row = {.continuation = continuation, .begin = begin, .end = 0};
    row.end = std::min(Length(row), begin + free_tokens);
    free_tokens -= row.end - row.begin;
    const TokenIds& ids = scores_[continuation].ids;
    Continuation step = {.parent = parent};
    // The logits for token `begin` come after the token before it; for the first, the prompt's last
    // token.
    step.token = begin == 0 ? last_prompt_token_ : ids[begin - 1];
    if (begin == 0) step.num_dropped = Depth(rows_[parent]) + 1;
    step.proposals.assign(ids.begin() + begin, ids.begin() + row.end - 1);
    continuations_.push_back(std::move(step));
    next.push_back(row);
  };
  const auto last = static_cast<int32_t>(rows_.size()) - 1;
  const bool unfinished = rows_[last].end < Length(rows_[last]);
  if (unfinished) add(last, rows_[last].continuation, rows_[last].end);
  // Each finished row becomes the parent of one new row, as far as there are any; that row takes
  // over its blocks.
  int32_t parent = 0;
  while (num_begun_ < static_cast<int32_t>(scores_.size()) && free_tokens > 0 &&
         static_cast<int32_t>(next.size()) < limits_.max_rows) {
    if (!next.empty() && !MayBeginBeside(next.back())) break;
    const bool computes_prompt = !MayBeginBeside(rows_[last]);
    add(parent, order_[num_begun_++], 0);
    if (computes_prompt) break;
    if (parent < last - (unfinished ? 1 : 0)) ++parent;
  }
  rows_ = std::move(next);
  WriteRequests();
  return continuations_;
}

void ScoreDecoder::Record(const Row& row, std::span<const RowResult> results) {
  GeneratedSequence& score = scores_[row.continuation];
  for (const RowResult& result : results) {
    const TokenChoice token = CandidateChoice(result, 0);
    score.logprobs.push_back({.chosen = {token.token, token.logprob}, .top = {}});
    score.cumulative_logprob += token.logprob;
  }
  if (row.end == Length(row)) score.finish_reason = FinishReason::kLength;
}

void ScoreDecoder::Stop(FinishReason reason) {
  for (GeneratedSequence& score : scores_) {
    if (score.finish_reason == FinishReason::kNone) score.finish_reason = reason;
  }
  rows_.clear();
  WriteRequests();
}

std::vector<GeneratedSequence> ScoreDecoder::TakeSequences() {
  BEAMLINE_CHECK(finished());
  return std::move(scores_);
}

}  // namespace beamline
