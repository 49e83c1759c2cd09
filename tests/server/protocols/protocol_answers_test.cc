// The other protocols in front of a real engine: their answers are those of beamline.v1, one at a
// time and many at once. Long because each call of two protocols is compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tei/v1/tei.grpc.pb.h"
#include "tests/engine/random_model.h"
#include "tests/server/protocols/infer_request.h"

namespace beamline::protocol_answers_test {
namespace {

using inference::GRPCInferenceService;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using testing::HasSubstr;
namespace api = tei::v1;

class ProtocolAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    EngineOptions options = TestEngineOptions();
    options.models = {gpt2_.Options("gpt2"), marian_.Options("marian"), bert_.Options("bert")};
    metrics_ = std::make_shared<Metrics>(options.models);
    auto engine = Engine::Create(options, metrics_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_listen = config.http_listen = "off";
    auto server = Server::Start(config, metrics_, *std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel =
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    own_ = v1::Inference::NewStub(channel);
    infer_ = GRPCInferenceService::NewStub(channel);
    embed_ = api::Embed::NewStub(channel);
    tokenize_ = api::Tokenize::NewStub(channel);
  }

  template <typename Stub, typename Method, typename Request, typename Response>
  static grpc::Status Call(Stub& stub, Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return (stub.*method)(&context, request, &response);
  }

  v1::GenerateResponse Generate(const v1::GenerateRequest& request) const {
    v1::GenerateResponse response;
    const auto status = Call(*own_, &v1::Inference::Stub::Generate, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  ModelInferResponse Infer(const InferRequest& request) const {
    ModelInferResponse response;
    const auto status = Call(*infer_, &GRPCInferenceService::Stub::ModelInfer, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::vector<float> Encode(const v1::EncodeRequest& request) const {
    v1::EncodeResponse response;
    const auto status = Call(*own_, &v1::Inference::Stub::Encode, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<float> values;
    for (const auto& embedding : response.embeddings()) {
      values.insert(values.end(), embedding.values().begin(), embedding.values().end());
    }
    return values;
  }

  const RandomStack gpt2_{"gpt2-3x40", 100, /*with_template=*/false};
  const RandomStack bert_{"bert-3x40", 100, /*with_template=*/true};
  const RandomTranslator marian_{"marian-2x16-target", 61, 97, 80};
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Inference::Stub> own_;
  std::unique_ptr<GRPCInferenceService::Stub> infer_;
  std::unique_ptr<api::Embed::Stub> embed_;
  std::unique_ptr<api::Tokenize::Stub> tokenize_;
};

InferRequest BeamRequest(const std::string& model, int32_t first) {
  InferRequest request;
  request.set_model_name(model);
  AddRaw(request, "input_ids", "INT32", {1, 3}, RawNumbers<int32_t>({first, 7, 11}));
  AddRaw(request, "beam_width", "INT32", {1}, RawNumbers<int32_t>({3}));
  AddRaw(request, "num_return_sequences", "INT32", {1}, RawNumbers<int32_t>({2}));
  AddRaw(request, "max_tokens", "INT32", {1}, RawNumbers<int32_t>({8}));
  AddRaw(request, "return_log_probs", "BOOL", {1}, std::string(1, '\1'));
  return request;
}
v1::GenerateRequest OwnBeamRequest(const std::string& model, int32_t first) {
  v1::GenerateRequest request;
  request.set_model(model);
  for (const int32_t id : {first, 7, 11}) request.mutable_prompt()->mutable_ids()->add_ids(id);
  request.mutable_beam()->set_width(3);
  request.mutable_beam()->set_num_sequences(2);
  request.mutable_limits()->set_max_new_tokens(8);
  request.mutable_output()->set_logprobs(0);
  return request;
}

void ExpectEqual(const ModelInferResponse& response, const v1::GenerateResponse& own) {
  const auto texts = TextsOf(response, "text_output");
  const auto ids = NumbersOf<int32_t>(response, "output_ids");
  const auto lengths = NumbersOf<int32_t>(response, "sequence_length");
  const auto sums = NumbersOf<float>(response, "cum_log_probs");
  const auto logprobs = NumbersOf<float>(response, "output_log_probs");
  ASSERT_EQ(static_cast<int>(texts.size()), own.sequences_size());
  const size_t longest = ids.size() / texts.size();
  ASSERT_EQ(logprobs.size(), ids.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const v1::Sequence& sequence = own.sequences(static_cast<int>(i));
    EXPECT_EQ(texts[i], sequence.text());
    EXPECT_EQ(lengths[i], sequence.ids_size());
    EXPECT_EQ(sums[i], static_cast<float>(sequence.cumulative_logprob()));
    for (int j = 0; j < sequence.ids_size(); ++j) {
      EXPECT_EQ(ids[i * longest + static_cast<size_t>(j)], sequence.ids(j));
      EXPECT_EQ(logprobs[i * longest + static_cast<size_t>(j)],
                sequence.logprobs(j).chosen().logprob());
    }
  }
  EXPECT_EQ(NumbersOf<uint32_t>(response, "num_input_tokens")[0],
            static_cast<uint32_t>(own.usage().prompt_tokens()));
}

TEST_F(ProtocolAnswersTest, GeneratesTheSame) {
  for (const std::string model : {"gpt2", "marian"}) {
    ExpectEqual(Infer(BeamRequest(model, 5)), Generate(OwnBeamRequest(model, 5)));
  }
  InferRequest text = TextRequest("gpt2", "abc");
  AddRaw(text, "sampling_parameters", "BYTES", {1},
         RawTexts({R"({"max_tokens": 6, "temperature": 0.8, "seed": 3, "logprobs": 0})"}));
  v1::GenerateRequest own;
  own.set_model("gpt2");
  own.mutable_prompt()->set_text("abc");
  own.mutable_sampling()->set_temperature(0.8f);
  own.mutable_sampling()->set_seed(3);
  own.mutable_limits()->set_max_new_tokens(6);
  own.mutable_output()->set_logprobs(0);
  ExpectEqual(Infer(text), Generate(own));
  EXPECT_EQ(NumbersOf<uint32_t>(Infer(text), "num_output_tokens")[0], 6u);
}

TEST_F(ProtocolAnswersTest, ErrorsOfTheEngineHaveTheNamesOfTheProtocol) {
  InferRequest request = TextRequest("gpt2", "abc");
  AddRaw(request, "max_tokens", "INT32", {1}, RawNumbers<int32_t>({0}));
  ModelInferResponse response;
  auto status = Call(*infer_, &GRPCInferenceService::Stub::ModelInfer, request, response);
  EXPECT_THAT(status.error_message(), HasSubstr("max_tokens is 0; accepted: "));
  status = Call(*infer_, &GRPCInferenceService::Stub::ModelInfer,
                TextRequest("gpt2", std::string(5000, 'a')), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::StartsWith("text_input has "));
  api::EmbedRequest embed;
  embed.set_inputs(std::string(5000, 'a'));
  api::EmbedResponse embedded;
  status = Call(*embed_, &api::Embed::Stub::Embed, embed, embedded);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::StartsWith("inputs has "));
}

TEST_F(ProtocolAnswersTest, ManyStreamsAtOnceHaveTheirOwnAnswers) {
  constexpr int kThreads = 6;
  constexpr int kRequests = 12;
  std::vector<std::vector<v1::GenerateResponse>> own(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kRequests; ++i) {
      own[t].push_back(Generate(OwnBeamRequest(i % 2 == 0 ? "gpt2" : "marian", 3 + t + i)));
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      const auto stream = infer_->ModelStreamInfer(&context);
      for (int i = 0; i < kRequests; ++i) {
        InferRequest request = BeamRequest(i % 2 == 0 ? "gpt2" : "marian", 3 + t + i);
        AddRaw(request, "stream", "BOOL", {1}, std::string(1, i % 3 == 0 ? '\0' : '\1'));
        request.set_id(std::to_string(i));
        ASSERT_TRUE(stream->Write(request));
      }
      stream->WritesDone();
      std::map<int, std::map<int32_t, std::string>> texts;
      int finals = 0;
      ModelStreamInferResponse message;
      while (stream->Read(&message)) {
        const ModelInferResponse& part = message.infer_response();
        ASSERT_EQ(message.error_message(), "");
        const int i = std::stoi(part.id());
        const auto rows = NumbersOf<int32_t>(part, "sequence_index");
        const auto pieces = TextsOf(part, "text_output");
        ASSERT_EQ(rows.size(), pieces.size());
        for (size_t row = 0; row < rows.size(); ++row) texts[i][rows[row]] += pieces[row];
        finals += part.parameters().at("triton_final_response").bool_param() ? 1 : 0;
      }
      EXPECT_TRUE(stream->Finish().ok());
      EXPECT_EQ(finals, kRequests);
      for (int i = 0; i < kRequests; ++i) {
        for (int s = 0; s < own[t][i].sequences_size(); ++s) {
          EXPECT_EQ(texts[i][s], own[t][i].sequences(s).text());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

v1::EncodeRequest OwnEncode(const std::string& text, bool normalize) {
  v1::EncodeRequest request;
  request.set_model("bert");
  request.add_inputs()->set_text(text);
  request.set_normalize(normalize);
  return request;
}

TEST_F(ProtocolAnswersTest, EmbedsTheSame) {
  InferRequest request = TextRequest("bert", "abc");
  request.mutable_inputs(0)->set_shape(0, 2);
  *request.mutable_raw_input_contents(0) = RawTexts({"abc", "de"});
  v1::EncodeRequest own;
  own.set_model("bert");
  own.add_inputs()->set_text("abc");
  own.add_inputs()->set_text("de");
  EXPECT_EQ(NumbersOf<float>(Infer(request), "embedding"), Encode(own));

  for (const bool normalize : {true, false}) {
    api::EmbedRequest embed;
    embed.set_inputs("abc");
    if (!normalize) embed.set_normalize(false);  // true unless it is set
    api::EmbedResponse embedded;
    ASSERT_TRUE(Call(*embed_, &api::Embed::Stub::Embed, embed, embedded).ok());
    EXPECT_EQ(std::vector<float>(embedded.embeddings().begin(), embedded.embeddings().end()),
              Encode(OwnEncode("abc", normalize)));
    EXPECT_EQ(embedded.metadata().compute_chars(), 3u);
    EXPECT_EQ(embedded.metadata().compute_tokens(), 5u);
    EXPECT_GT(embedded.metadata().total_time_ns(), 0u);
  }
  api::EmbedAllRequest all;
  all.set_inputs("abc");
  api::EmbedAllResponse tokens;
  ASSERT_TRUE(Call(*embed_, &api::Embed::Stub::EmbedAll, all, tokens).ok());
  v1::EncodeRequest own_all = OwnEncode("abc", false);
  own_all.set_pooling(v1::POOLING_NONE);
  std::vector<float> values;
  for (const auto& token : tokens.token_embeddings()) {
    values.insert(values.end(), token.embeddings().begin(), token.embeddings().end());
  }
  EXPECT_EQ(tokens.token_embeddings_size(), 5);
  EXPECT_EQ(values, Encode(own_all));
}

TEST_F(ProtocolAnswersTest, StreamsOfEmbeddingsKeepTheirOrder) {
  constexpr int kTexts = 200;
  const auto text = [](int i) {
    return std::string(1 + static_cast<size_t>(i * 7 % 20), 'a' + i % 26);
  };
  grpc::ClientContext context;
  const auto stream = embed_->EmbedStream(&context);
  std::thread writer([&] {
    for (int i = 0; i < kTexts; ++i) {
      api::EmbedRequest request;
      request.set_inputs(text(i));
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  api::EmbedResponse response;
  int count = 0;
  for (; stream->Read(&response); ++count) {
    EXPECT_EQ(response.metadata().compute_chars(), text(count).size());
    if (count % 20 != 0) continue;
    const auto own = Encode(OwnEncode(text(count), true));
    ASSERT_EQ(static_cast<size_t>(response.embeddings_size()), own.size());
    // Beside others the same to rounding.
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_NEAR(response.embeddings(static_cast<int>(i)), own[i], 1e-5);
    }
  }
  writer.join();
  EXPECT_EQ(count, kTexts);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ProtocolAnswersTest, AnErrorEndsAStreamBehindTheAnswersBeforeIt) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = embed_->EmbedStream(&context);
    for (int i = 0; i < 10; ++i) {
      api::EmbedRequest request;
      request.set_inputs(i == 5 ? std::string(5000, 'a') : "abc");
      if (!stream->Write(request)) break;
    }
    // The client says nothing of an end: the server's reading is under way at the error.
    api::EmbedResponse response;
    int count = 0;
    while (stream->Read(&response)) ++count;
    EXPECT_EQ(count, 5);
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), testing::StartsWith("inputs has "));
  }
}

TEST_F(ProtocolAnswersTest, TokenizesTheSame) {
  api::EncodeRequest request;
  request.set_inputs("abc");
  request.set_add_special_tokens(true);
  api::EncodeResponse response;
  ASSERT_TRUE(Call(*tokenize_, &api::Tokenize::Stub::Tokenize, request, response).ok());
  v1::TokenizeRequest own;
  own.set_model("bert");
  own.set_text("abc");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(Call(*own_, &v1::Inference::Stub::Tokenize, own, tokens).ok());
  ASSERT_EQ(response.tokens_size(), tokens.tokens_size());
  std::string text;
  api::DecodeRequest decode;
  for (int i = 0; i < tokens.tokens_size(); ++i) {
    const api::SimpleToken& token = response.tokens(i);
    EXPECT_EQ(token.id(), static_cast<uint32_t>(tokens.tokens(i).id()));
    EXPECT_EQ(token.special(), !token.has_start());
    if (!token.special()) text += token.text();
    decode.add_ids(token.id());
  }
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(response.tokens(0).text(), tokens.tokens(0).piece());
  request.set_add_special_tokens(false);
  ASSERT_TRUE(Call(*tokenize_, &api::Tokenize::Stub::Tokenize, request, response).ok());
  EXPECT_EQ(response.tokens_size(), 3);

  decode.set_skip_special_tokens(true);
  v1::DetokenizeRequest own_decode;
  own_decode.set_model("bert");
  for (const uint32_t id : decode.ids()) own_decode.add_ids(static_cast<int32_t>(id));
  api::DecodeResponse decoded;
  v1::DetokenizeResponse own_decoded;
  ASSERT_TRUE(Call(*tokenize_, &api::Tokenize::Stub::Decode, decode, decoded).ok());
  ASSERT_TRUE(Call(*own_, &v1::Inference::Stub::Detokenize, own_decode, own_decoded).ok());
  EXPECT_EQ(decoded.text(), own_decoded.text());
  decode.add_ids(UINT32_MAX);
  EXPECT_THAT(Call(*tokenize_, &api::Tokenize::Stub::Decode, decode, decoded).error_message(),
              HasSubstr("ids[5] is 4294967295; accepted: 0 to "));
}

TEST_F(ProtocolAnswersTest, StreamsOfTokensKeepTheirOrder) {
  grpc::ClientContext context;
  const auto stream = tokenize_->TokenizeStream(&context);
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) {
      api::EncodeRequest request;  // large ones are tokenized on other threads
      request.set_inputs(std::string(i % 10 == 0 ? 20000 : 1 + i, 'a'));
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  api::EncodeResponse response;
  int count = 0;
  for (; stream->Read(&response); ++count) {
    EXPECT_EQ(response.tokens_size(), count % 10 == 0 ? 20000 : 1 + count);
  }
  writer.join();
  EXPECT_EQ(count, 100);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ProtocolAnswersTest, TellsOfTheEncoder) {
  const auto info = api::Info::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  api::InfoResponse response;
  ASSERT_TRUE(Call(*info, &api::Info::Stub::Info, api::InfoRequest(), response).ok());
  EXPECT_EQ(response.model_id(), "bert");
  EXPECT_EQ(response.model_dtype(), "float32");
  EXPECT_GT(response.max_input_length(), 0u);
  // The metadata names the model.
  grpc::ClientContext context;
  context.AddMetadata("x-model", "gpt2");
  api::EmbedRequest request;
  request.set_inputs("a");
  api::EmbedResponse embedded;
  const grpc::Status status = embed_->Embed(&context, request, &embedded);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("metadata x-model is 'gpt2'"));
}

TEST_F(ProtocolAnswersTest, WhatNoModelCanDoIsUnimplemented) {
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  const auto rerank = api::Rerank::NewStub(channel);
  api::EmbedSparseResponse sparse;
  const grpc::Status status =
      Call(*embed_, &api::Embed::Stub::EmbedSparse, api::EmbedSparseRequest(), sparse);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("sparse"));
  grpc::ClientContext context;
  api::RerankResponse ranked;
  const auto stream = rerank->RerankStream(&context, &ranked);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamline::protocol_answers_test
