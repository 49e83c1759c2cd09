#include "engine/runahead/step_call.h"

#include <utility>

#include "engine/transformer/rank_call.h"

namespace beamline {
namespace {

// Minimum bytes of a request and of a search, so that a count in a message cannot cause an
// allocation larger than the message.
constexpr size_t kLeastBytes = sizeof(int32_t);

template <typename Message, typename Request>
void VisitRequest(Message& message, Request& request) {
  message(request.normalize_first, request.renormalize, request.num_candidates, request.samples);
}

template <typename Message, typename Edits>
void VisitEdits(Message& message, Edits& edits) {
  message(edits.repetition_penalty, edits.presence_penalty, edits.frequency_penalty,
          edits.penalties, edits.biases, edits.forced_id);
}

template <typename Message, typename Search>
void VisitSearch(Message& message, Search& search) {
  message(search.first_row, search.num_rows, search.width, search.score_word, search.renormalize);
}

}  // namespace

void WriteStepCall(int32_t number, const StepBuilder& built, const DeviceEdits& edits,
                   std::span<const RowRequest* const> requests,
                   std::span<const BeamSearch> searches, ByteWriter& message) {
  message(number, std::vector<BlockCopy>(built.copies().begin(), built.copies().end()));
  VisitEncoderBatch(message, built.encoder_batch());
  VisitStepBatch(message, built.step_batch());
  message(edits.words != nullptr, edits.fills, edits.beam_tables);
  message(uint64_t{requests.size()});
  for (const RowRequest* const request : requests) {
    VisitRequest(message, *request);
    message(request->edits != nullptr);
    if (request->edits != nullptr) VisitEdits(message, *request->edits);
  }
  message(uint64_t{searches.size()});
  for (const BeamSearch& search : searches) {
    VisitSearch(message, search);
    message(std::vector<float>(search.scores.begin(), search.scores.end()),
            std::vector<int32_t>(search.end_ids.begin(), search.end_ids.end()));
  }
}

absl::StatusOr<std::unique_ptr<StepCall>> StepCall::Read(ByteReader& message) {
  std::unique_ptr<StepCall> call(new StepCall());
  std::vector<BlockCopy> copies;
  EncoderBatch encoder_batch;
  StepBatch step_batch;
  message(call->number_, copies);
  VisitEncoderBatch(message, encoder_batch);
  VisitStepBatch(message, step_batch);
  call->built_ =
      StepBuilder::Of(std::move(encoder_batch), std::move(step_batch), std::move(copies));
  message(call->has_words_, call->edits_.fills, call->edits_.beam_tables);
  call->ReadRequests(message);
  call->ReadSearches(message);
  const bool is_step = message.done() && call->number_ >= 0;
  if (!is_step) return absl::InvalidArgumentError("the front sent a step that is none");
  return call;
}

void StepCall::ReadRequests(ByteReader& message) {
  const size_t count = message.TakeCount(kLeastBytes);
  requests_.resize(count);
  row_edits_.resize(count);
  for (size_t i = 0; i < count && message.ok(); ++i) {
    VisitRequest(message, requests_[i]);
    bool has_edits = false;
    message(has_edits);
    if (has_edits) {
      VisitEdits(message, row_edits_[i]);
      requests_[i].edits = &row_edits_[i];
    }
    pointers_.push_back(&requests_[i]);
  }
}

void StepCall::ReadSearches(ByteReader& message) {
  const size_t count = message.TakeCount(kLeastBytes);
  searches_.resize(count);
  scores_.resize(count);
  end_ids_.resize(count);
  for (size_t i = 0; i < count && message.ok(); ++i) {
    VisitSearch(message, searches_[i]);
    message(scores_[i], end_ids_[i]);
    searches_[i].scores = scores_[i];
    searches_[i].end_ids = end_ids_[i];
  }
}

}  // namespace beamline
