// Quotas of tokens in front of a real engine: each protocol's requests are charged, whoever has
// used his quota is told when to come again, and what was not used is given back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/error_details.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tei/v1/tei.grpc.pb.h"
#include "tests/engine/random_model.h"
#include "tests/scratch_path.h"
#include "tests/server/http/http_client.h"
#include "tests/server/protocols/infer_request.h"
#include "tests/server/security/certificates.h"
#include "tests/server/security/token_hash.h"

namespace beamline::quota_test {
namespace {

using inference::GRPCInferenceService;
using testing::HasSubstr;
namespace api = tei::v1;

// 1 token a second flows in, which is next to none of what the requests below ask for.
constexpr int kBurst = 1000;
constexpr int kLeastRetrySeconds = 100;

class QuotaTest : public testing::Test {
 protected:
  void Serve(const std::string& identities = "") {
    spdlog::set_level(spdlog::level::off);
    EngineOptions options = TestEngineOptions();
    options.models = {gpt2_.Options("gpt2"), bert_.Options("bert")};
    metrics_ = std::make_shared<Metrics>(options.models);
    auto engine = Engine::Create(options, metrics_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    ServerConfig config;
    config.listen = config.http_listen = "127.0.0.1:0";
    config.metrics_listen = "off";
    config.tokens_per_second = 1;
    config.token_burst = kBurst;
    if (!identities.empty()) {
      config.identity_file = ScratchPath("identities");
      ReplaceFile(config.identity_file, identities);
      identity_file_ = config.identity_file;
    }
    auto server = Server::Start(config, metrics_, *std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel =
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    own_ = v1::Inference::NewStub(channel);
    infer_ = GRPCInferenceService::NewStub(channel);
    embed_ = api::Embed::NewStub(channel);
  }
  int HttpPort() const {
    return std::atoi(
        server_->http_address().substr(server_->http_address().rfind(':') + 1).c_str());
  }

  struct Who {
    std::string client;  // by x-client-id
    std::string token;
  };
  static void Prepare(grpc::ClientContext& context, const Who& who) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!who.client.empty()) context.AddMetadata("x-client-id", who.client);
    if (!who.token.empty()) context.AddMetadata("authorization", "Bearer " + who.token);
  }
  template <typename Stub, typename Method, typename Request, typename Response>
  static grpc::Status Call(Stub& stub, Method method, const Request& request, Response& response,
                           const Who& who) {
    grpc::ClientContext context;
    Prepare(context, who);
    return (stub.*method)(&context, request, &response);
  }
  grpc::Status Generate(const v1::GenerateRequest& request, const Who& who) const {
    v1::GenerateResponse response;
    return Call(*own_, &v1::Inference::Stub::Generate, request, response, who);
  }
  grpc::Status Encode(int num_tokens, const Who& who) const {
    v1::EncodeRequest request;
    request.set_model("bert");
    for (; num_tokens > 0; num_tokens -= 50) {
      auto& ids = *request.add_inputs()->mutable_ids();
      for (int i = 0; i < std::min(num_tokens, 50); ++i) ids.add_ids(5);
    }
    v1::EncodeResponse response;
    return Call(*own_, &v1::Inference::Stub::Encode, request, response, who);
  }
  double Counter(const std::string& name, const std::string& value) const {
    for (const auto& family : metrics_->Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        if (metric.label.empty() || metric.label[0].value == value) {
          return metric.counter.value + metric.gauge.value;  // one is 0
        }
      }
    }
    return -1;
  }

  const RandomStack gpt2_{"gpt2-3x40", 100, /*with_template=*/false};
  const RandomStack bert_{"bert-3x40", 100, /*with_template=*/true};
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  std::string identity_file_;
  std::unique_ptr<v1::Inference::Stub> own_;
  std::unique_ptr<GRPCInferenceService::Stub> infer_;
  std::unique_ptr<api::Embed::Stub> embed_;
};

// 3 tokens and 40 texts of 20 at most: 803.
v1::GenerateRequest Large(bool ends_at_once) {
  v1::GenerateRequest request;
  request.set_model("gpt2");
  for (const int32_t id : {5, 7, 11}) request.mutable_prompt()->mutable_ids()->add_ids(id);
  request.mutable_sampling()->set_num_sequences(40);
  request.mutable_limits()->set_max_new_tokens(20);
  request.mutable_limits()->set_ignore_eos(true);
  constexpr int32_t kVocabSize = 131;
  for (int32_t id = 0; ends_at_once && id < kVocabSize; ++id) {
    request.mutable_limits()->add_stop_token_ids(id);
  }
  return request;
}

void ExpectRefused(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(),
              HasSubstr("1 tokens a second (tokens_per_second), 1000 at once (token_burst)"));
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(grpc::ExtractErrorDetails(status, &details).ok());
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&retry));
  EXPECT_GE(retry.retry_delay().seconds(), kLeastRetrySeconds);
  EXPECT_LE(retry.retry_delay().seconds(), 2 * kBurst);
}

TEST_F(QuotaTest, EachClientHasItsOwn) {
  Serve();
  EXPECT_TRUE(Generate(Large(false), {"a"}).ok());
  ExpectRefused(Generate(Large(false), {"a"}));
  EXPECT_TRUE(Generate(Large(false), {"b"}).ok());
  EXPECT_EQ(Counter("beamline_rejected_total", "quota"), 1);
  EXPECT_EQ(Counter("beamline_quota_tokens_total", "used"), 2 * 803);
  EXPECT_EQ(Counter("beamline_quota_tokens_total", "refused"), 803);
  EXPECT_EQ(Counter("beamline_quota_clients", ""), 2);
}

// Four of them might use 3212 at once, and use 172.
TEST_F(QuotaTest, WhatTextsDoNotUseIsGivenBack) {
  Serve();
  for (int i = 0; i < 4; ++i) {
    const grpc::Status status = Generate(Large(true), {"a"});
    ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
  }
  EXPECT_EQ(Counter("beamline_quota_tokens_total", "used"), 4 * 43);
}

TEST_F(QuotaTest, WhatTheEngineRefusesCostsNothing) {
  Serve();
  v1::GenerateRequest faulty = Large(false);
  faulty.mutable_limits()->set_max_new_tokens(100000);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Generate(faulty, {"a"}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_TRUE(Generate(Large(false), {"a"}).ok());
}

// All its texts take more than is left, or than there ever is; it pays for them later.
TEST_F(QuotaTest, ALargerRequestGoesOnceAndIsOwed) {
  Serve();
  EXPECT_TRUE(Encode(1500, {"a"}).ok());
  ExpectRefused(Encode(1, {"a"}));
  EXPECT_TRUE(Encode(300, {"b"}).ok());
  ExpectRefused(Encode(1500, {"b"}));
}

TEST_F(QuotaTest, EveryProtocolIsCharged) {
  Serve();
  const Who who = {"a"};
  ASSERT_TRUE(Encode(1500, who).ok());
  {
    v1::ScoreRequest request;
    request.set_model("gpt2");
    request.mutable_prompt()->set_text("a");
    request.add_continuations()->set_text("b");
    v1::ScoreResponse response;
    ExpectRefused(Call(*own_, &v1::Inference::Stub::Score, request, response, who));
  }
  {
    grpc::ClientContext context;
    Prepare(context, who);
    const auto stream = own_->GenerateStream(&context, Large(false));
    v1::GenerateStreamResponse message;
    EXPECT_FALSE(stream->Read(&message));
    ExpectRefused(stream->Finish());
  }
  {
    grpc::ClientContext context;
    Prepare(context, who);
    const auto stream = own_->GenerateMany(&context);
    v1::GenerateRequest request = Large(false);
    request.set_request_id("one");
    EXPECT_TRUE(stream->Write(request));
    stream->WritesDone();
    v1::GenerateManyResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.error().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
    EXPECT_TRUE(stream->Finish().ok());
  }
  {
    inference::ModelInferResponse response;
    ExpectRefused(Call(*infer_, &GRPCInferenceService::Stub::ModelInfer, TextRequest("gpt2", "abc"),
                       response, who));
  }
  {
    api::EmbedRequest request;
    request.set_inputs("abc");
    api::EmbedResponse response;
    ExpectRefused(Call(*embed_, &api::Embed::Stub::Embed, request, response, who));
  }
  HttpClient http(HttpPort());
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/completions", R"({"model":"gpt2","prompt":"a"})"},
           {"/v1/embeddings", R"({"model":"bert","input":"a"})"}}) {
    const HttpReply reply = http.Post(path, body, {{"x-client-id", "a"}});
    EXPECT_EQ(reply.status, 429) << reply.body;
    EXPECT_EQ(reply.error("code"), "rate_limit_exceeded");
    EXPECT_GE(std::atoi(reply.headers.at("retry-after").c_str()), kLeastRetrySeconds);
  }
  EXPECT_EQ(Counter("beamline_rejected_total", "quota"), 7);
}

TEST_F(QuotaTest, TokenizingIsFree) {
  Serve();
  ASSERT_TRUE(Encode(1500, {"a"}).ok());
  v1::TokenizeRequest request;
  request.set_model("bert");
  request.set_text("abc");
  v1::TokenizeResponse response;
  EXPECT_TRUE(Call(*own_, &v1::Inference::Stub::Tokenize, request, response, {"a"}).ok());
}

// Else a list of more than a burst could never be answered, and each try would compute some of it.
TEST_F(QuotaTest, TheFirstPromptOfAListLetsInTheOthers) {
  Serve();
  HttpClient http(HttpPort());
  const std::string body =
      R"({"model":"gpt2","prompt":[[5,7],[7,5],[5,5]],"n":40,"max_tokens":20,"temperature":1})";
  EXPECT_EQ(http.Post("/v1/completions", body, {{"x-client-id", "a"}}).status, 200);
  EXPECT_EQ(http.Post("/v1/completions", body, {{"x-client-id", "a"}}).status, 429);
}

TEST_F(QuotaTest, IdentitiesHaveTheirOwnAsTheFileSays) {
  const std::string names = "alice inference " + HashOf("A") + "\nbob inference " + HashOf("B");
  Serve(names + " tokens_per_second=0");
  EXPECT_TRUE(Encode(1500, {"a", "A"}).ok());
  ExpectRefused(Encode(1, {"another", "A"}));  // whatever she calls herself
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Encode(1500, {"", "B"}).ok());
  ReplaceFile(identity_file_, names + " tokens_per_second=1 token_burst=1000");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  grpc::Status status;
  while (status.ok() && std::chrono::steady_clock::now() < until) {
    status = Encode(1500, {"", "B"});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ExpectRefused(status);
}

}  // namespace
}  // namespace beamline::quota_test
