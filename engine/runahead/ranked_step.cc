#include "engine/runahead/ranked_step.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "engine/runahead/step_call.h"
#include "engine/runahead/vocabulary_split.h"
#include "engine/transformer/rank_call.h"

namespace beamline {

RankedStep::RankedStep(RankedTransformer& transformer, int32_t number)
    : ranks_(transformer.ranks()), number_(number) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    Backend& backend = ranks_.backend(rank);
    steps_.push_back(std::make_unique<TransformerStep>(
        transformer.part(rank), backend,
        std::make_unique<VocabularySplit>(transformer.spec().vocab_size, backend,
                                          ranks_.communicator(rank))));
  }
}

absl::Status RankedStep::Start(const StepBuilder& built, const DeviceEdits& edits,
                               std::span<const RowRequest* const> requests,
                               std::span<const BeamSearch> searches) {
  BEAMLINE_RETURN_IF_ERROR(ranks_.status());
  BEAMLINE_CHECK(edits.words == nullptr || (other_ != nullptr && edits.words == other_->words()));
  BEAMLINE_RETURN_IF_ERROR(Prepare(requests, searches));
  TellFollowers(ranks_, RankCall::kStep, [&](ByteWriter& message) {
    WriteStepCall(number_, built, edits, requests, searches, message);
  });
  return ranks_.Run([&](int rank) {
    if (rank == 0 || edits.words == nullptr) {
      return steps_[rank]->Start(built, edits, requests, searches);
    }
    DeviceEdits own = edits;
    own.words = other_->steps_[rank]->words();
    return steps_[rank]->Start(built, own, requests, searches);
  });
}

absl::Status RankedStep::Prepare(std::span<const RowRequest* const> requests,
                                 std::span<const BeamSearch> searches) {
  if (!ranks_.backend(0).Records()) return absl::OkStatus();
  for (const auto& step : steps_) {
    const absl::Status status = step->Prepare(requests, searches);
    if (!status.ok()) ranks_.Fail(status);
  }
  return ranks_.status();
}

bool RankedStep::Done() {
  return std::ranges::all_of(steps_, [](const auto& step) { return step->Done(); });
}

absl::Status RankedStep::Wait() {
  BEAMLINE_RETURN_IF_ERROR(ranks_.status());
  for (const auto& step : steps_) {
    if (const absl::Status status = step->Wait(); !status.ok()) ranks_.Fail(status);
  }
  return ranks_.Look();
}

}  // namespace beamline
