// A Beamline server whose calls fail as a test says, one after the other, then are answered.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace beamline {

inline google::rpc::Status Busy(int64_t retry_s, int32_t retry_ns = 0) {
  google::rpc::Status busy;
  busy.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
  busy.set_message("the queue is full");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_s);
  retry.mutable_retry_delay()->set_nanos(retry_ns);
  busy.add_details()->PackFrom(retry);
  return busy;
}

inline grpc::Status OnTheWire(const google::rpc::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message(),
          status.SerializeAsString()};
}

inline grpc::Status Gone() { return {grpc::StatusCode::UNAVAILABLE, "the server is stopping"}; }

// Calls come one at a time.
class FailingServer final : public v1::Inference::Service {
 public:
  FailingServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~FailingServer() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  const std::string& address() const { return address_; }
  void FailNext(std::deque<grpc::Status> failures) { failures_ = std::move(failures); }
  // This text of a stream of many is refused so many times, for a millisecond each. "silent" has no
  // answer, "twice" has two.
  void RefuseText(const std::string& text, int times) { refusals_[text] = times; }
  // Streams of many break after so many answers, once each.
  void BreakAfter(std::deque<int> answers) { breaks_ = std::move(answers); }
  // When the calls came.
  const std::vector<std::chrono::steady_clock::time_point>& calls() const { return calls_; }
  // Of all streams of many.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  grpc::Status Begin() {
    calls_.push_back(std::chrono::steady_clock::now());
    if (failures_.empty()) return grpc::Status::OK;
    const grpc::Status failure = failures_.front();
    failures_.pop_front();
    return failure;
  }

  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        v1::GenerateResponse* response) override {
    response->set_model(request->model());
    return Begin();
  }

  grpc::Status GenerateStream(grpc::ServerContext*, const v1::GenerateRequest* request,
                              grpc::ServerWriter<v1::GenerateStreamResponse>* writer) override {
    const grpc::Status failure = Begin();
    if (!failure.ok()) return failure;
    v1::GenerateStreamResponse message;
    message.add_deltas()->set_text("a");
    writer->Write(message);
    if (request->model() == "breaks") return Gone();
    message.mutable_end()->set_model(request->model());
    writer->Write(message);
    return grpc::Status::OK;
  }

  grpc::Status EncodeMany(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::EncodeManyResponse, v1::EncodeRequest>* stream) override {
    const grpc::Status failure = Begin();
    if (!failure.ok()) return failure;
    int num_left = std::numeric_limits<int>::max();
    if (!breaks_.empty()) {
      num_left = breaks_.front();
      breaks_.pop_front();
    }
    v1::EncodeRequest request;
    for (; stream->Read(&request); --num_left) {
      if (num_left == 0) return Gone();
      const std::string text = request.inputs(0).text();
      texts_.push_back(text);
      v1::EncodeManyResponse answer;
      answer.set_request_id(request.request_id());
      if (text == "silent") continue;
      if (refusals_[text]-- > 0) {
        *answer.mutable_error() = Busy(0, 1'000'000);
      } else {
        answer.mutable_response()->set_model(text);
      }
      stream->Write(answer);
      if (text == "twice") stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  std::deque<grpc::Status> failures_;
  std::map<std::string, int> refusals_;
  std::deque<int> breaks_;
  std::vector<std::chrono::steady_clock::time_point> calls_;
  std::vector<std::string> texts_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace beamline
