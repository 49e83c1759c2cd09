#include "engine/runahead/staged_step.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/runahead/step_call.h"
#include "engine/runahead/vocabulary_split.h"
#include "engine/transformer/rank_call.h"

namespace beamline {

void KeptRequests::Keep(std::span<const RowRequest* const> requests,
                        std::span<const BeamSearch> searches) {
  requests_.clear();
  edits_.clear();
  pointers_.clear();
  scores_.clear();
  end_ids_.clear();
  // Pointers refer to the elements.
  requests_.reserve(requests.size());
  edits_.reserve(requests.size());
  for (const RowRequest* const request : requests) {
    RowRequest& kept = requests_.emplace_back(*request);
    if (request->edits != nullptr) kept.edits = &edits_.emplace_back(*request->edits);
    pointers_.push_back(&kept);
  }
  searches_.assign(searches.begin(), searches.end());
  for (BeamSearch& search : searches_) {
    search.scores = scores_.emplace_back(search.scores.begin(), search.scores.end());
    search.end_ids = end_ids_.emplace_back(search.end_ids.begin(), search.end_ids.end());
  }
}

StagedStep::StagedStep(RankedTransformer& transformer, int32_t number)
    : transformer_(transformer), ranks_(transformer.ranks()), number_(number) {
  for (int rank = ranks_.result_rank(); rank < ranks_.size(); ++rank) {
    if (!ranks_.Chooses(rank)) continue;
    Backend& backend = ranks_.backend(rank);
    Communicator* const shares = ranks_.shares(rank);
    choosing_.push_back(std::make_unique<TransformerStep>(
        transformer.part(rank), backend,
        shares == nullptr
            ? nullptr
            : std::make_unique<VocabularySplit>(transformer.spec().vocab_size, backend, *shares)));
  }
}

absl::Status StagedStep::Start(const StepBuilder& built, const DeviceEdits& edits,
                               std::span<const RowRequest* const> requests,
                               std::span<const BeamSearch> searches) {
  BEAMLINE_RETURN_IF_ERROR(ranks_.status());
  BEAMLINE_CHECK(edits.fills.empty() && edits.beam_tables.empty());
  BEAMLINE_CHECK(!started_ || ranks_.Done(call_));
  built_ = built;
  kept_.Keep(requests, searches);
  BEAMLINE_RETURN_IF_ERROR(Prepare());
  TellFollowers(ranks_, RankCall::kStep, [&](ByteWriter& message) {
    WriteStepCall(number_, built, edits, requests, searches, message);
  });
  call_ = ranks_.Start([this](int rank) -> absl::Status {
    if (!ranks_.Chooses(rank)) {
      TransformerStep::Compute(transformer_.part(rank), built_, DeviceEdits());
      return absl::OkStatus();
    }
    TransformerStep& step = *choosing_[rank - ranks_.result_rank()];
    return step.Start(built_, DeviceEdits(), kept_.requests(), kept_.searches());
  });
  started_ = true;
  return absl::OkStatus();
}

absl::Status StagedStep::Prepare() {
  const auto is_prepared = [&](const auto& step) {
    return step->IsPrepared(kept_.requests(), kept_.searches());
  };
  if (!ranks_.backend(0).Records() || std::ranges::all_of(choosing_, is_prepared)) {
    return absl::OkStatus();
  }
  ranks_.Drain();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const absl::Status status = ranks_.backend(rank).Synchronize();
    if (!status.ok()) ranks_.Fail(status);
  }
  BEAMLINE_RETURN_IF_ERROR(ranks_.status());
  for (const auto& step : choosing_) {
    const absl::Status status = step->Prepare(kept_.requests(), kept_.searches());
    if (!status.ok()) ranks_.Fail(status);
  }
  return ranks_.status();
}

bool StagedStep::Done() {
  return ranks_.Done(call_) &&
         std::ranges::all_of(choosing_, [](const auto& step) { return step->Done(); });
}

absl::Status StagedStep::Wait() {
  BEAMLINE_RETURN_IF_ERROR(ranks_.Wait(call_));
  if (ranks_.backend(0).Records()) {
    // On the threads that launch on these devices; they have nothing to launch before.
    BEAMLINE_RETURN_IF_ERROR(ranks_.Wait(ranks_.Start([this](int rank) {
      return ranks_.Chooses(rank) ? choosing_[rank - ranks_.result_rank()]->Wait()
                                  : absl::OkStatus();
    })));
    return ranks_.Look();
  }
  for (const auto& step : choosing_) {
    if (const absl::Status status = step->Wait(); !status.ok()) ranks_.Fail(status);
  }
  return ranks_.Look();
}

}  // namespace beamline
