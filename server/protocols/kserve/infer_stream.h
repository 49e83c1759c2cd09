// ModelStreamInfer: requests as they arrive, with one or many answers each.
//
// As in GenerateStream, the engine's deltas are merged while a part of the same answer waits to be
// written. So a slow reader's buffer is never larger than the answers themselves. A writer converts
// an item's parts one at a time; `busy` marks it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/calls/caller.h"
#include "server/calls/delta_buffer.h"
#include "server/calls/many_stream.h"
#include "server/calls/running_requests.h"
#include "server/protocols/kserve/infer_method.h"

namespace beamline {

class InferStream final : public ManyStream {
 public:
  InferStream(ServiceContext& services, Caller caller)
      : ManyStream(services, Rpc::kModelStreamInfer), caller_(std::move(caller)) {}

 private:
  struct Item;
  class DeltaSink;
  class LastSink;
  using ItemPtr = std::shared_ptr<Item>;

  void Take(const grpc::ByteBuffer& buffer) override;
  void CancelAll() override { running_.CancelAll(); }

  absl::Status Submit(const ItemPtr& item, const grpc::ByteBuffer& buffer);
  absl::Status SubmitStream(const ItemPtr& item, const InferTranslation& translation);
  void Keep(const ItemPtr& item, const std::shared_ptr<RequestHandle>& handle);
  // For an item with deltas. Called by the engine.
  void Push(const ItemPtr& item, GenerateDelta delta);
  void End(const ItemPtr& item, absl::StatusOr<GenerateResult> result);
  void WakeLocked(const ItemPtr& item);
  // REQUIRES: the caller has set the item's busy. Sends waiting deltas or the end, else clears
  // busy.
  void Advance(const ItemPtr& item);
  void SendDeltas(const ItemPtr& item, std::vector<GenerateDelta> deltas,
                  const absl::StatusOr<GenerateResult>* end);
  // For an item with one answer.
  void Complete(const ItemPtr& item, const absl::StatusOr<InferResult>& result);
  // Sends the last answer.
  void Finish(const ItemPtr& item, const inference::ModelInferResponse& response);
  void Fail(const ItemPtr& item, const absl::Status& status);
  void Send(const ItemPtr& item, const inference::ModelStreamInferResponse& message);

  const Caller caller_;
  RunningRequests running_;
};

}  // namespace beamline
