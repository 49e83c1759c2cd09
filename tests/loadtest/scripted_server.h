// A Beamline server whose answers and delays a test decides. Answers are a function of the request
// alone: token i of a prompt of n is n + i.
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

namespace beamline::loadtest {

// Of one request: before its first token or its answer, and between its tokens.
struct Delays {
  std::chrono::microseconds first{0};
  std::chrono::microseconds between{0};
};

// What the server took of one request: from the call of its handler to the answer or the first
// token; of streams, from the first token to the last over the tokens after the first; and to its
// end.
struct Waits {
  std::chrono::nanoseconds first{0};
  std::chrono::nanoseconds between{0};
  std::chrono::nanoseconds whole{0};
};

struct Script {
  std::chrono::microseconds delay{0};        // before the first token or the answer
  std::chrono::microseconds token_delay{0};  // between the tokens of a stream
  // Once, at the request of this number, the whole server stops for `stall`; -1: never.
  int stall_at = -1;
  std::chrono::milliseconds stall{0};
  int fail_every = 0;  // every n-th request is RESOURCE_EXHAUSTED; 0: none
  // Request n has the delays n modulo their number, instead of the two above.
  std::vector<Delays> delays;
  // One request after the other has the server for so long: it can do 1 s / service a second.
  std::chrono::microseconds service{0};
  int max_open = 0;          // RESOURCE_EXHAUSTED beyond so many at a time; 0: no limit
  int wrong_from = 1 << 30;  // from this request on, the last token is another one
};

class ScriptedServer final : public v1::Inference::Service, public v1::Models::Service {
 public:
  explicit ScriptedServer(const Script& script);
  ~ScriptedServer() override;

  const std::string& target() const { return target_; }
  int num_requests() const { return num_requests_; }
  // The messages of all requests, serialized, in the order in which they came.
  std::vector<std::string> received() const;
  // Of the Generate calls whose x-client-id says one, in the same order.
  std::vector<std::string> clients() const;
  // Of the streams that have ended.
  std::vector<Waits> waits() const;

  // Of its model "write", in tokens.
  static constexpr int kMaxInput = 1000;
  static constexpr int kMaxTotal = 1500;

 private:
  using Context = grpc::ServerContext;

  grpc::Status Generate(Context*, const v1::GenerateRequest*, v1::GenerateResponse*) override;
  grpc::Status GenerateStream(Context*, const v1::GenerateRequest*,
                              grpc::ServerWriter<v1::GenerateStreamResponse>*) override;
  grpc::Status GenerateMany(
      Context*, grpc::ServerReaderWriter<v1::GenerateManyResponse, v1::GenerateRequest>*) override;
  grpc::Status Encode(Context*, const v1::EncodeRequest*, v1::EncodeResponse*) override;
  grpc::Status EncodeMany(
      Context*, grpc::ServerReaderWriter<v1::EncodeManyResponse, v1::EncodeRequest>*) override;
  grpc::Status Score(Context*, const v1::ScoreRequest*, v1::ScoreResponse*) override;
  grpc::Status Classify(Context*, const v1::ClassifyRequest*, v1::ClassifyResponse*) override;
  grpc::Status ClassifyTokens(Context*, const v1::ClassifyTokensRequest*,
                              v1::ClassifyTokensResponse*) override;
  grpc::Status FillMask(Context*, const v1::FillMaskRequest*, v1::FillMaskResponse*) override;
  grpc::Status Rerank(Context*, const v1::RerankRequest*, v1::RerankResponse*) override;
  grpc::Status Tokenize(Context*, const v1::TokenizeRequest*, v1::TokenizeResponse*) override;
  grpc::Status ListModels(Context*, const v1::ListModelsRequest*, v1::ListModelsResponse*) override;

  void Keep(const google::protobuf::Message& request);
  // Counts the request, waits as the script says and fails if it says so. Returns the time between
  // tokens, too.
  grpc::Status Begin(std::chrono::microseconds* between = nullptr);
  // Waits until the requests before have had their time, and then its own.
  void Serve();
  v1::Sequence MakeSequence(const v1::GenerateRequest& request) const;

  const Script script_;
  std::atomic<int> num_requests_ = 0;
  std::atomic<int> num_open_ = 0;
  std::mutex stall_mutex_;  // held while the server is stopped
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point free_at_;  // when Serve can begin with the next request
  std::vector<Waits> waits_;
  std::vector<std::string> received_;
  std::vector<std::string> clients_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

}  // namespace beamline::loadtest
