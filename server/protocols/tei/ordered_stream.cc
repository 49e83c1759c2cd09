#include "server/protocols/tei/ordered_stream.h"

#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {

void OrderedStream::Enter(const PlacePtr& place) {
  place->state = std::make_unique<CallState>(services(), rpc_);
  place->state->SetCaller(caller_);
  UseRoom(*place->state);
  place->index = next_index_++;
  running_.Add(place.get());
}

void OrderedStream::Leave(const PlacePtr& place) {
  running_.Remove(place.get());
  --next_index_;
}

void OrderedStream::Reply(const PlacePtr& place, const google::protobuf::Message& message) {
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  const int64_t limit = services().stream_limits.max_send_bytes;
  if (bytes > limit) return Fail(place, AnswerTooLarge(bytes, limit));
  running_.Remove(place.get());
  place->state->AddAnswerBytes(bytes);
  AnswerInOrder(place->index, SerializeMessage(message), std::move(place->state));
}

void OrderedStream::Fail(const PlacePtr& place, const absl::Status& status) {
  running_.Remove(place.get());
  const grpc::Status error = ToGrpcStatus(place->state->Fail(status));
  AnswerInOrder(place->index, {}, std::move(place->state), error);
}

}  // namespace beamline
