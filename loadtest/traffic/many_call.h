// GenerateMany and EncodeMany: pipelined requests over one stream, answered in the order in which
// they finish.
#pragma once

#include <grpcpp/support/async_stream.h>

#include <charconv>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "loadtest/traffic/call.h"

namespace beamline::loadtest {

inline auto PrepareMany(v1::Inference::Stub& stub, grpc::ClientContext& context,
                        const v1::GenerateRequest* /*selects*/, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncGenerateMany(&context, &queue);
}
inline auto PrepareMany(v1::Inference::Stub& stub, grpc::ClientContext& context,
                        const v1::EncodeRequest* /*selects*/, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncEncodeMany(&context, &queue);
}

// Writes all requests while it reads answers. The two directions are independent until both have
// ended; then the status is requested.
template <typename Message, typename Response>
class ManyCall final : public Call {
 public:
  using Call::Call;

  // The stream has started, or the status has arrived.
  void OnEvent(bool ok) override {
    if (finishing_) return Complete();
    writing_ = reading_ = ok;
    if (!ok) return MaybeFinish();
    answers_.resize(Requests().size());
    WriteNext();
    rpc_->Read(&response_, static_cast<EventHandler*>(&reader_));
  }

 private:
  // Forwards the events of one direction.
  template <void (ManyCall::*Method)(bool)>
  class Direction final : public EventHandler {
   public:
    explicit Direction(ManyCall& call) : call_(call) {}
    void OnEvent(bool ok) override { (call_.*Method)(ok); }

   private:
    ManyCall& call_;
  };

  void Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) override {
    const Message* const selects = nullptr;
    rpc_ = PrepareMany(stub, context_, selects, queue);
    rpc_->StartCall(static_cast<EventHandler*>(this));
  }

  const std::vector<Message>& Requests() const {
    return std::get<std::vector<Message>>(request().body);
  }

  void WriteNext() {
    if (num_written_ < Requests().size()) {
      rpc_->Write(Requests()[num_written_++], static_cast<EventHandler*>(&writer_));
    } else {
      writes_done_ = true;
      rpc_->WritesDone(static_cast<EventHandler*>(&writer_));
    }
  }

  void OnWritten(bool ok) {
    if (ok && !writes_done_) return WriteNext();
    writing_ = false;
    MaybeFinish();
  }

  void OnRead(bool ok) {
    if (!ok) {
      reading_ = false;
      return MaybeFinish();
    }
    TakeAnswer();
    rpc_->Read(&response_, static_cast<EventHandler*>(&reader_));
  }

  void TakeAnswer() {
    size_t position = answers_.size();
    const std::string& id = response_.request_id();
    std::from_chars(id.data(), id.data() + id.size(), position);
    if (position >= answers_.size() || answers_[position].num_items > 0) {
      Fail(grpc::StatusCode::INTERNAL, "an answer to no open request: \"" + id + "\"");
    } else if (response_.has_response()) {
      answers_[position].Append(response_.response());
      ++num_answered_;
    } else {
      ++num_answered_;
      Fail(static_cast<grpc::StatusCode>(response_.error().code()), response_.error().message());
    }
  }

  // The first error of a request becomes the error of the whole call.
  void Fail(grpc::StatusCode code, const std::string& message) {
    if (first_error_.ok()) first_error_ = grpc::Status(code, message);
  }

  void MaybeFinish() {
    if (writing_ || reading_) return;
    finishing_ = true;
    rpc_->Finish(&status_, static_cast<EventHandler*>(this));
  }

  void Complete() {
    if (status_.ok() && num_answered_ != Requests().size()) {
      Fail(grpc::StatusCode::INTERNAL, "the stream ended with requests unanswered");
    }
    if (status_.ok()) status_ = first_error_;
    for (const Answer& answer : answers_) answer_.Append(answer);
    Done();
  }

  std::unique_ptr<grpc::ClientAsyncReaderWriter<Message, Response>> rpc_;
  Direction<&ManyCall::OnWritten> writer_{*this};
  Direction<&ManyCall::OnRead> reader_{*this};
  bool writing_ = false;  // an event of this direction is pending
  bool reading_ = false;
  bool writes_done_ = false;
  bool finishing_ = false;
  size_t num_written_ = 0;
  size_t num_answered_ = 0;
  Response response_;
  std::vector<Answer> answers_;  // in the order of the requests
  grpc::Status first_error_;
};

using GenerateManyCall = ManyCall<v1::GenerateRequest, v1::GenerateManyResponse>;
using EncodeManyCall = ManyCall<v1::EncodeRequest, v1::EncodeManyResponse>;

}  // namespace beamline::loadtest
