// Predict and Rerank of text-embeddings-inference in front of real classifiers: their answers are
// those of beamline.v1. What ModelInfer says of a classifier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tei/v1/tei.grpc.pb.h"
#include "tests/engine/demo_engine.h"
#include "tests/server/protocols/infer_request.h"

namespace beamline::tei_classify_test {
namespace {

using testing::HasSubstr;
namespace api = tei::v1;
using Own = v1::Inference::Stub;

class TeiClassifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    EngineOptions options = TestEngineOptions();
    for (const char* name : {"bert-5x6-labels", "bert-2x10-rank"}) {
      ModelOptions model = Demo(name);
      model.folder = std::string(BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/") + name;
      options.models.push_back(model);
    }
    ModelOptions writer = Demo(kWriter);
    writer.folder = BEAMLINE_SOURCE_DIR "/tests/golden/rerankers/qwen3-4of2x6";
    writer.rerank_template = "{query}<|im_end|>{document}<|im_end|>";
    writer.rerank_tokens = "yes, no";
    options.models.push_back(writer);
    metrics_ = std::make_shared<Metrics>(options.models);
    auto engine = Engine::Create(options, metrics_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_listen = config.http_listen = "off";
    auto server = Server::Start(config, metrics_, *std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    own_ = v1::Inference::NewStub(channel_);
    predict_ = api::Predict::NewStub(channel_);
    rerank_ = api::Rerank::NewStub(channel_);
  }

  // Of a call to the model that the metadata name.
  template <typename Stub, typename Method, typename Request, typename Response>
  static grpc::Status Call(Stub& stub, Method method, const Request& request, Response& response,
                           const std::string& model) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    if (!model.empty()) context.AddMetadata("x-model", model);
    return (stub.*method)(&context, request, &response);
  }

  // The classes of one input, the best first.
  v1::Classification Classified(const v1::ClassifyInput& input, v1::ScoreFunction function) {
    v1::ClassifyRequest request;
    request.set_model(kLabels);
    *request.add_inputs() = input;
    request.set_function(function);
    request.set_top(100);
    v1::ClassifyResponse response;
    EXPECT_TRUE(Call(*own_, &Own::Classify, request, response, "").ok());
    return response.classifications(0);
  }

  static void ExpectSame(const api::PredictResponse& found, const v1::Classification& expected) {
    ASSERT_EQ(found.predictions_size(), 5);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(found.predictions(i).label(), expected.classes(i).label());
      EXPECT_EQ(found.predictions(i).score(), expected.classes(i).score());
      if (i > 0) {
        EXPECT_LE(found.predictions(i).score(), found.predictions(i - 1).score());
      }
    }
    EXPECT_EQ(found.metadata().compute_tokens(), static_cast<uint32_t>(expected.num_tokens()));
  }

  void ExpectSameRanks(const std::string& model) {
    v1::RerankRequest own;
    own.set_model(model);
    own.set_query("who reads mail");
    for (const char* text : {"the fox", "a dog reads mail", "", "new files"})
      own.add_documents(text);
    own.set_top(4);
    api::RerankRequest request;
    request.set_query(own.query());
    *request.mutable_texts() = own.documents();
    request.set_return_text(true);
    for (const bool raw : {false, true}) {
      own.set_function(raw ? v1::SCORE_FUNCTION_NONE : v1::SCORE_FUNCTION_SIGMOID);
      v1::RerankResponse expected;
      ASSERT_TRUE(Call(*own_, &Own::Rerank, own, expected, "").ok());
      request.set_raw_scores(raw);
      api::RerankResponse found;
      ASSERT_TRUE(Call(*rerank_, &api::Rerank::Stub::Rerank, request, found, model).ok());
      ASSERT_EQ(found.ranks_size(), 4);
      for (int i = 0; i < 4; ++i) {
        const auto index = static_cast<uint32_t>(expected.documents(i).index());
        EXPECT_EQ(found.ranks(i).index(), index);
        EXPECT_EQ(found.ranks(i).score(), expected.documents(i).score());
        EXPECT_EQ(found.ranks(i).text(), own.documents(static_cast<int>(index)));
        if (i > 0) {
          EXPECT_LE(found.ranks(i).score(), found.ranks(i - 1).score());
        }
      }
    }
  }

  static constexpr char kLabels[] = "bert-5x6-labels";
  static constexpr char kRank[] = "bert-2x10-rank";
  static constexpr char kWriter[] = "qwen3-reranker";
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> own_;
  std::unique_ptr<api::Predict::Stub> predict_;
  std::unique_ptr<api::Rerank::Stub> rerank_;
};

TEST_F(TeiClassifyTest, PredictsAsClassify) {
  using Stub = api::Predict::Stub;
  v1::ClassifyInput text, pair;
  text.set_text("the quick brown fox");
  pair.mutable_pair()->set_first("who reads");
  pair.mutable_pair()->set_second("the mail");
  for (const bool raw : {false, true}) {
    const auto function = raw ? v1::SCORE_FUNCTION_NONE : v1::SCORE_FUNCTION_MODEL;
    api::PredictRequest request;
    request.set_inputs(text.text());
    request.set_raw_scores(raw);
    api::PredictResponse response;
    ASSERT_TRUE(Call(*predict_, &Stub::Predict, request, response, kLabels).ok());
    ExpectSame(response, Classified(text, function));
    EXPECT_EQ(response.metadata().compute_chars(), 19u);
    api::PredictPairRequest both;
    both.add_inputs("who reads");
    both.add_inputs("the mail");
    both.set_raw_scores(raw);
    response.Clear();
    ASSERT_TRUE(Call(*predict_, &Stub::PredictPair, both, response, kLabels).ok());
    ExpectSame(response, Classified(pair, function));
  }
}

TEST_F(TeiClassifyTest, PredictsStreamsInTheirOrder) {
  grpc::ClientContext context;
  context.AddMetadata("x-model", kLabels);
  const auto stream = predict_->PredictStream(&context);
  const std::vector<std::string> texts = {"the fox", "a lazy dog", "who asks ?"};
  for (const std::string& text : texts) {
    api::PredictRequest request;
    request.set_inputs(text);
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  for (const std::string& text : texts) {
    api::PredictResponse response;
    ASSERT_TRUE(stream->Read(&response)) << text;
    v1::ClassifyInput input;
    input.set_text(text);
    ExpectSame(response, Classified(input, v1::SCORE_FUNCTION_MODEL));
  }
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TeiClassifyTest, ReranksTheBestFirst) {
  for (const char* model : {kRank, kWriter}) ExpectSameRanks(model);
}

TEST_F(TeiClassifyTest, AModelThatWritesGeneratesToo) {
  v1::GenerateRequest request;
  request.set_model(kWriter);
  request.mutable_prompt()->set_text("the fox");
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(2);
  v1::GenerateResponse response;
  EXPECT_TRUE(Call(*own_, &Own::Generate, request, response, "").ok());
  v1::ClassifyRequest classify;
  classify.set_model(kWriter);
  classify.add_inputs()->set_text("the fox");
  v1::ClassifyResponse classified;
  EXPECT_EQ(Call(*own_, &Own::Classify, classify, classified, "").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TeiClassifyTest, ErrorsNameTheProtocolsFields) {
  api::RerankRequest request;
  api::RerankResponse ranked;
  const auto rerank = [&](const char* model) {
    const auto status = Call(*rerank_, &api::Rerank::Stub::Rerank, request, ranked, model);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  request.set_query("a");
  EXPECT_THAT(rerank(kRank), HasSubstr("texts has 0 entries; accepted: 1 to 4096"));
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "a ";
  request.add_texts(long_text);
  EXPECT_THAT(rerank(kRank), HasSubstr("texts[0] has "));
  EXPECT_THAT(rerank(kLabels), HasSubstr("which has 5 classes; a reranker has one"));
  EXPECT_THAT(rerank(""), HasSubstr("metadata x-model is empty"));
  request.clear_query();
  EXPECT_THAT(rerank(kRank), HasSubstr("query is empty"));
  api::PredictPairRequest three;
  for (const char* text : {"a", "b", "c"}) three.add_inputs(text);
  api::PredictResponse predicted;
  const auto status = Call(*predict_, &api::Predict::Stub::PredictPair, three, predicted, kLabels);
  EXPECT_EQ(status.error_message(), "inputs is 3 texts; accepted: 2 texts");
}

TEST_F(TeiClassifyTest, InfoAndTokensAreOfTheClassifier) {
  const auto info = api::Info::NewStub(channel_);
  for (const auto& [model, type] :
       {std::pair(kLabels, api::MODEL_TYPE_CLASSIFIER), std::pair(kRank, api::MODEL_TYPE_RERANKER),
        std::pair(kWriter, api::MODEL_TYPE_RERANKER)}) {
    api::InfoResponse response;
    ASSERT_TRUE(Call(*info, &api::Info::Stub::Info, api::InfoRequest(), response, model).ok());
    EXPECT_EQ(response.model_type(), type);
    EXPECT_EQ(response.model_id(), model);
  }
  const auto tokenize = api::Tokenize::NewStub(channel_);
  api::EncodeRequest request;
  request.set_inputs("the fox");
  api::EncodeResponse tokens;
  EXPECT_TRUE(Call(*tokenize, &api::Tokenize::Stub::Tokenize, request, tokens, kRank).ok());
  EXPECT_GT(tokens.tokens_size(), 1);
}

TEST_F(TeiClassifyTest, ModelInferDoesNotServeIt) {
  const auto infer = inference::GRPCInferenceService::NewStub(channel_);
  using Stub = inference::GRPCInferenceService::Stub;
  InferRequest request;
  request.set_model_name(kRank);
  AddRaw(request, "text_input", "BYTES", {1}, RawTexts({"abc"}));
  inference::ModelInferResponse response;
  const auto status = Call(*infer, &Stub::ModelInfer, request, response, "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("a classifier, which ModelInfer does not serve"));
  inference::ModelMetadataRequest about;
  about.set_name(kRank);
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(Call(*infer, &Stub::ModelMetadata, about, metadata, "").ok());
  EXPECT_EQ(metadata.inputs_size(), 0);
  EXPECT_EQ(metadata.outputs_size(), 0);
}

}  // namespace
}  // namespace beamline::tei_classify_test
