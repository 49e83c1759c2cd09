// Under which model and code calls are counted that never come to the engine.
#include <gmock/gmock.h>

#include <cmath>

#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::call_records_test {
namespace {

constexpr char kRequests[] = "beamline_requests_total";
constexpr char kNoText[] = "\xFF";  // in a string of a message

class CallRecords : public ServiceTest {
 protected:
  void ServeCounted(ServerConfig config = {}) {
    std::vector<ModelOptions> models(2);
    models[0].name = "writer";
    models[1].name = "embedder";
    Serve(config, models);
    stub_ = v1::Inference::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }
  bool IsCounted(const std::string& rpc, const std::string& model, const std::string& code) const {
    return CounterReaches(kRequests, "rpc=" + rpc + " model=" + model + " code=" + code, 1);
  }
  static v1::GenerateRequest Generate(const std::string& model, const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_model(model);
    request.mutable_prompt()->set_text(prompt);
    return request;
  }

  std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST_F(CallRecords, WhatCannotBeReadCountsUnderTheModelThatItNames) {
  ServeCounted();
  EXPECT_FALSE(client_->Generate(Generate("writer", kNoText)).ok());
  EXPECT_TRUE(IsCounted("Generate", "writer", "INVALID_ARGUMENT"));
  EXPECT_FALSE(
      client_->GenerateStream(Generate("writer", kNoText), [](const auto&) { return true; }).ok());
  EXPECT_TRUE(IsCounted("GenerateStream", "writer", "INVALID_ARGUMENT"));
  const std::vector<v1::GenerateRequest> many = {Generate("writer", kNoText)};
  EXPECT_FALSE(client_->GenerateMany(many)[0].ok());
  EXPECT_TRUE(IsCounted("GenerateMany", "writer", "INVALID_ARGUMENT"));
  v1::EncodeRequest encode;
  encode.set_model("embedder");
  encode.add_inputs()->set_text(kNoText);
  EXPECT_FALSE(client_->Encode(encode).ok());
  EXPECT_TRUE(IsCounted("Encode", "embedder", "INVALID_ARGUMENT"));
  v1::ScoreRequest score;
  score.set_model("writer");
  score.add_continuations()->set_text(kNoText);
  EXPECT_FALSE(client_->Score(score).ok());
  EXPECT_TRUE(IsCounted("Score", "writer", "INVALID_ARGUMENT"));
  v1::TokenizeRequest tokenize;
  tokenize.set_model("embedder");
  tokenize.set_text(kNoText);
  EXPECT_FALSE(client_->Tokenize(tokenize).ok());
  EXPECT_TRUE(IsCounted("Tokenize", "embedder", "INVALID_ARGUMENT"));
}

TEST_F(CallRecords, WhatIsRefusedCountsUnderTheModelThatItNames) {
  ServeCounted();
  v1::GenerateRequest nan = Generate("writer", "p");
  nan.mutable_sampling()->set_temperature(NAN);
  EXPECT_FALSE(client_->Generate(nan).ok());
  EXPECT_TRUE(IsCounted("Generate", "writer", "INVALID_ARGUMENT"));
  v1::EncodeRequest encode;  // of a model that generates
  encode.set_model("writer");
  encode.add_inputs()->set_text("t");
  EXPECT_FALSE(client_->Encode(encode).ok());
  EXPECT_TRUE(IsCounted("Encode", "writer", "INVALID_ARGUMENT"));
  EXPECT_TRUE(client_->GetModel("embedder").ok());
  EXPECT_TRUE(IsCounted("GetModel", "embedder", "OK"));
}

TEST_F(CallRecords, AModelThatIsNotThereIsNone) {
  ServeCounted();
  EXPECT_FALSE(client_->Generate(Generate("nobody", "p")).ok());
  EXPECT_TRUE(IsCounted("Generate", "none", "INVALID_ARGUMENT"));
  EXPECT_FALSE(
      client_->GenerateStream(Generate(kNoText, "p"), [](const auto&) { return true; }).ok());
  EXPECT_TRUE(IsCounted("GenerateStream", "none", "INVALID_ARGUMENT"));
  EXPECT_FALSE(client_->GetModel("nobody").ok());
  EXPECT_TRUE(IsCounted("GetModel", "none", "NOT_FOUND"));
}

// gRPC answers it: no code of ours was sent.
TEST_F(CallRecords, AStreamWhoseFirstRequestIsTooLargeIsNoCall) {
  ServerConfig config;
  config.max_receive_bytes = 1024;
  ServeCounted(config);
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = stub_->GenerateMany(&context);
    stream->Write(Generate("writer", std::string(5000, 'x')));
    v1::GenerateManyResponse answer;
    EXPECT_FALSE(stream->Read(&answer));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (const auto& family : metrics_->Collect()) {
    if (family.name != kRequests) continue;
    EXPECT_TRUE(family.metric.empty());
  }
}

}  // namespace
}  // namespace beamline::call_records_test
