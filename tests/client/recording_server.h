// A Beamline server that notes every call and answers it with what it got: prompt "p" becomes the
// text "<p>". What a client sends, and what it makes of answers and errors, shows without a model.
#pragma once

#include <grpcpp/server.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace beamline {

class RecordingServer final : public v1::Inference::Service,
                              public v1::Models::Service,
                              public grpc::health::v1::Health::Service {
 public:
  // Of one call, as the server sees it.
  struct Call {
    std::string rpc;
    std::chrono::system_clock::time_point deadline;  // max: none
  };

  RecordingServer();
  ~RecordingServer() override;

  const std::string& address() const { return address_; }

  // From now on every call fails so.
  void Fail(const grpc::Status& status);
  // From now on calls of the Inference service wait until they are cancelled.
  void Hang() { hangs_ = true; }
  // Calls that were cancelled, or whose deadline passed, while they hung.
  int num_cancelled() const { return num_cancelled_; }
  // From now on streams of requests are answered once they are all there, the last one first.
  void AnswerBackwards() { backwards_ = true; }
  // From now on ListModels has this model too.
  void Add(v1::Model model);
  // From now on GenerateStream ends without its last message.
  void LoseEnds() { loses_ends_ = true; }

  std::vector<Call> calls() const;
  // The requests of all calls of a kind so far, as they came.
  std::vector<v1::GenerateRequest> generates() const;
  std::vector<v1::EncodeRequest> encodes() const;
  std::vector<v1::ScoreRequest> scores() const;
  std::vector<v1::ClassifyRequest> classifies() const;
  std::vector<v1::RerankRequest> reranks() const;
  std::vector<v1::ClassifyTokensRequest> token_classifies() const;
  std::vector<v1::FillMaskRequest> fill_masks() const;
  std::vector<v1::TokenizeRequest> tokenizes() const;
  std::vector<v1::DetokenizeRequest> detokenizes() const;
  std::vector<v1::LoadModelRequest> loads() const;
  std::vector<v1::UnloadModelRequest> unloads() const;
  std::vector<v1::RestartReplicaRequest> restarts() const;

 private:
  using Context = grpc::ServerContext;
  template <typename Request, typename Answer>
  using Stream = grpc::ServerReaderWriter<Answer, Request>;

  grpc::Status Generate(Context*, const v1::GenerateRequest*, v1::GenerateResponse*) override;
  grpc::Status GenerateStream(Context*, const v1::GenerateRequest*,
                              grpc::ServerWriter<v1::GenerateStreamResponse>*) override;
  grpc::Status GenerateMany(Context*,
                            Stream<v1::GenerateRequest, v1::GenerateManyResponse>*) override;
  grpc::Status Encode(Context*, const v1::EncodeRequest*, v1::EncodeResponse*) override;
  grpc::Status EncodeMany(Context*, Stream<v1::EncodeRequest, v1::EncodeManyResponse>*) override;
  grpc::Status Score(Context*, const v1::ScoreRequest*, v1::ScoreResponse*) override;
  grpc::Status Classify(Context*, const v1::ClassifyRequest*, v1::ClassifyResponse*) override;
  grpc::Status Rerank(Context*, const v1::RerankRequest*, v1::RerankResponse*) override;
  grpc::Status ClassifyTokens(Context*, const v1::ClassifyTokensRequest*,
                              v1::ClassifyTokensResponse*) override;
  grpc::Status FillMask(Context*, const v1::FillMaskRequest*, v1::FillMaskResponse*) override;
  grpc::Status Tokenize(Context*, const v1::TokenizeRequest*, v1::TokenizeResponse*) override;
  grpc::Status Detokenize(Context*, const v1::DetokenizeRequest*, v1::DetokenizeResponse*) override;
  grpc::Status ListModels(Context*, const v1::ListModelsRequest*, v1::ListModelsResponse*) override;
  grpc::Status GetModel(Context*, const v1::GetModelRequest*, v1::Model*) override;
  grpc::Status LoadModel(Context*, const v1::LoadModelRequest*, v1::Model*) override;
  grpc::Status UnloadModel(Context*, const v1::UnloadModelRequest*,
                           v1::UnloadModelResponse*) override;
  grpc::Status RestartReplica(Context*, const v1::RestartReplicaRequest*, v1::Model*) override;
  grpc::Status Check(Context*, const grpc::health::v1::HealthCheckRequest*,
                     grpc::health::v1::HealthCheckResponse*) override;

  template <typename Note>
  std::vector<Note> Copy(const std::vector<Note>& notes) const {
    const std::lock_guard lock(mutex_);
    return notes;
  }
  // Notes the call; hangs and fails as the test said.
  grpc::Status Begin(const char* rpc, const Context& context);
  template <typename Request, typename Answer>
  grpc::Status Many(Stream<Request, Answer>& stream, std::vector<Request>& notes);

  mutable std::mutex mutex_;  // guards the notes, the models added and failure_
  v1::ListModelsResponse added_;
  std::vector<Call> calls_;
  std::vector<v1::GenerateRequest> generates_;
  std::vector<v1::EncodeRequest> encodes_;
  std::vector<v1::ScoreRequest> scores_;
  std::vector<v1::ClassifyRequest> classifies_;
  std::vector<v1::RerankRequest> reranks_;
  std::vector<v1::ClassifyTokensRequest> token_classifies_;
  std::vector<v1::FillMaskRequest> fill_masks_;
  std::vector<v1::TokenizeRequest> tokenizes_;
  std::vector<v1::DetokenizeRequest> detokenizes_;
  std::vector<v1::LoadModelRequest> loads_;
  std::vector<v1::UnloadModelRequest> unloads_;
  std::vector<v1::RestartReplicaRequest> restarts_;
  grpc::Status failure_;
  std::atomic<bool> hangs_ = false;
  std::atomic<bool> backwards_ = false;
  std::atomic<bool> loses_ends_ = false;
  std::atomic<int> num_cancelled_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace beamline
