// The answers about the documents of a Rerank request, which are jobs of their own, put together.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/api/request.h"

namespace beamline {

// Cancelling it cancels what has not been answered. Thread safe.
class RerankGather final : public RequestHandle, public std::enable_shared_from_this<RerankGather> {
 public:
  // `sink` gets, once, an embedding of one number for each document, in their order, or the first
  // error, after which the other documents are cancelled. By ScoreFunction::kNone the number is the
  // difference of the two log-probabilities; else the sigmoid of that, which is the softmax of
  // both.
  RerankGather(size_t num_documents, ScoreFunction function, std::shared_ptr<EncodeSink> sink);

  // Where the answer about a document belongs: two scores, of the positive token and the negative.
  std::shared_ptr<ScoreSink> SinkOf(size_t document);
  // The job of one more document; to be cancelled with the others.
  void Add(std::shared_ptr<RequestHandle> job);
  // The request is refused after some of its documents were accepted: cancels them, and the sink is
  // not called. False where it was called already.
  bool Abandon();
  void Cancel() override;

 private:
  class DocumentSink;

  void Take(size_t document, absl::StatusOr<ScoreResult> result);

  const ScoreFunction function_;
  std::mutex mutex_;                  // guards all below
  std::shared_ptr<EncodeSink> sink_;  // null: it was called, or is not to be
  std::vector<std::shared_ptr<RequestHandle>> jobs_;
  bool cancelled_ = false;  // jobs that are added are cancelled at once
  size_t num_left_;
  EncodeResult result_;
};

}  // namespace beamline
