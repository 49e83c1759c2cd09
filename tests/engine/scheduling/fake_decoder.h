// A GroupDecoder that forks, proposes and refutes at random and finishes after a given number of
// steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "engine/decoding/group_decoder.h"

namespace beamline {

enum class FakeKind {
  kIndependent,  // rows descend from themselves and end one by one
  kBeams,        // from random rows of the step before, and their number changes
  kSearch,       // as kBeams, but as a device chooses too: ChooseFakeBeams
  kProposes,     // one row, which proposes up to three tokens a step and keeps some of them
};

// Draws of a logits row in the simulator.
inline constexpr int32_t kMaxDraws = 8;

// The beams that a fake search goes on with: a pure function of its first row's draws and of how
// many rows live. One continuation each, the parents among the live rows; fewer than `width` at
// times.
inline std::vector<Continuation> ChooseFakeBeams(std::span<const int32_t> draws, int32_t num_live,
                                                 int32_t width) {
  const int32_t last = draws[kMaxDraws - 1];
  const int32_t count = last % 8 != 0 ? width : 1 + last / 8 % width;
  std::vector<Continuation> beams;
  for (int32_t i = 0; i < count; ++i) beams.push_back({draws[i] % num_live, draws[i]});
  return beams;
}

class FakeDecoder : public GroupDecoder {
 public:
  // max_rows: 1 with kProposes, at most kMaxDraws.
  FakeDecoder(int32_t max_rows, int32_t num_steps, FakeKind kind, uint64_t seed)
      : max_rows_(max_rows), steps_left_(num_steps), kind_(kind), random_(seed), requests_(1) {}

  int32_t max_rows() const override { return max_rows_; }
  std::span<const RowRequest> Requests() override { return requests_; }
  std::optional<BeamRequest> Beams() override {
    if (kind_ != FakeKind::kSearch) return std::nullopt;
    scores_.assign(num_proposals_.size(), 1.0f);
    return BeamRequest{.width = max_rows_, .scores = scores_, .end_ids = {}};
  }

  std::span<const Continuation> Advance(std::span<const RowResult> results) override {
    return next_ = Next(results);
  }

  std::optional<std::span<const AssumedRow>> Assume() override {
    if (!RunsAhead()) return std::nullopt;
    const auto live = static_cast<int32_t>(num_proposals_.size());
    const bool search = kind_ == FakeKind::kSearch;
    if (search && live != 1 && live != max_rows_) return std::nullopt;
    assumed_.clear();
    if (steps_left_ == 1) return assumed_;
    const bool first = num_generated_ == 0;
    const int32_t rows = first || search ? max_rows_ : live;
    using enum AssumedRow::Choice;
    for (int32_t row = 0; row < rows; ++row) {
      assumed_.push_back({.parent = std::min(row, live - 1),
                          .choice = search  ? kBeam
                                    : first ? kDraw
                                            : kBestCandidate,
                          .index = row,
                          .request = &assumed_request_});
    }
    return assumed_;
  }

  void Stop(FinishReason) override { steps_left_ = 0; }
  bool finished() const override { return steps_left_ == 0; }
  int32_t num_generated_tokens() const override { return num_generated_; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  std::vector<GeneratedSequence> TakeSequences() override { return {}; }

 private:
  std::vector<Continuation> Next(std::span<const RowResult> results) {
    const auto live = static_cast<int32_t>(num_proposals_.size());
    const bool runs_ahead = RunsAhead();
    ++num_generated_;
    if (--steps_left_ == 0) return {};
    if (kind_ == FakeKind::kSearch) return AdvanceSearch(results, live);
    std::vector<Continuation> next;
    const int32_t rows = NumRows(live);
    const auto ended = static_cast<int32_t>(random_() % live);
    for (int32_t row = 0; row < rows; ++row) {
      const bool any_parent = kind_ == FakeKind::kBeams && num_generated_ > 1;
      const int32_t parent = num_generated_ == 1 ? 0
                             : any_parent        ? static_cast<int32_t>(random_() % live)
                                                 : row;
      Continuation continuation = {parent, static_cast<int32_t>(random_() % 1000)};
      if (runs_ahead) {
        // One of the live rows has ended: those behind it move up.
        const int32_t survivor = row + (rows < live && num_generated_ > 1 && row >= ended ? 1 : 0);
        if (num_generated_ > 1) continuation.parent = survivor;
        const std::span<const int32_t> chosen =
            num_generated_ == 1 ? Draw(results[0], row) : results[survivor].ids;
        if (!chosen.empty()) continuation.token = chosen[0];
        continuation.assumed = survivor;
      }
      if (kind_ == FakeKind::kProposes) {
        if (num_proposals_[0] > 0) continuation.num_dropped = random_() % (num_proposals_[0] + 1);
        for (uint64_t i = random_() % 4; i > 0; --i)
          continuation.proposals.push_back(random_() % 1000);
      }
      next.push_back(continuation);
    }
    num_proposals_.clear();
    for (const Continuation& row : next) num_proposals_.push_back(row.proposals.size());
    requests_.resize(next.size() + (next.size() == 1 ? num_proposals_[0] : 0));
    return next;
  }

  // These take their tokens from the results, so they can be assumed.
  bool RunsAhead() const { return kind_ == FakeKind::kIndependent || kind_ == FakeKind::kSearch; }

  std::vector<Continuation> AdvanceSearch(std::span<const RowResult> results, int32_t live) {
    auto next = ChooseFakeBeams(results[0].sampled_ids, live, max_rows_);
    for (size_t i = 0; i < next.size(); ++i) next[i].assumed = static_cast<int32_t>(i);
    num_proposals_.assign(next.size(), 0);
    requests_.resize(next.size());
    return next;
  }

  static std::span<const int32_t> Draw(const RowResult& result, int32_t draw) {
    return result.sampled_ids.empty() ? result.sampled_ids : result.sampled_ids.subspan(draw, 1);
  }

  int32_t NumRows(int32_t live) {
    if (num_generated_ == 1) return max_rows_;
    if (random_() % 8 != 0) return live;
    // Beams end group by group, and come back where more tokens are allowed; independent sequences
    // end one by one.
    if (kind_ == FakeKind::kBeams) return 1 + static_cast<int32_t>(random_() % max_rows_);
    return std::max(live - 1, 1);
  }

  int32_t max_rows_;
  int32_t steps_left_;
  FakeKind kind_;
  std::mt19937_64 random_;
  int32_t num_generated_ = 0;
  std::vector<RowRequest> requests_;
  std::vector<float> scores_;
  std::vector<AssumedRow> assumed_;
  const RowRequest assumed_request_;
  std::vector<Continuation> next_;           // of the last step
  std::vector<size_t> num_proposals_ = {0};  // of each live row
};

}  // namespace beamline
