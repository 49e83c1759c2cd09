// A client that is alone and sends its next request as soon as it has the answer to the last one
// finds the only place of the server free, over each protocol.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tei/v1/tei.grpc.pb.h"
#include "tests/sanitized.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/protocols/infer_request.h"

namespace beamline::protocol_places_test {
namespace {

constexpr int kRequests = kSanitized ? 300 : 2000;

class ProtocolPlacesTest : public HttpTest {
 protected:
  void Start(int32_t places = 1) {
    ServerConfig config;
    config.max_concurrent_requests = places;
    ServeHttp(config);
    engine_->AnswerAll(TextResult("t"));
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  }
  void TearDown() override {
    EXPECT_EQ(Counter("beamline_rejected_total", "reason=overload"), expected_refusals_);
  }

  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  }
  template <typename Stub, typename Method, typename Request, typename Response>
  void AskOneByOne(Stub& stub, Method method, const Request& request, Response response) const {
    for (int i = 0; i < kRequests; ++i) {
      grpc::ClientContext context;
      SetDeadline(context);
      const grpc::Status status = (stub.*method)(&context, request, &response);
      ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
    }
  }
  // Over one stream; `is_last` is false of a part of an answer.
  template <typename Response, typename Stream, typename Request, typename IsLast>
  static void AskOverStream(Stream& stream, Request request, const IsLast& is_last) {
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(stream.Write(request));
      Response response;
      do {
        ASSERT_TRUE(stream.Read(&response)) << i << ": " << stream.Finish().error_message();
      } while (!is_last(response));
    }
    stream.WritesDone();
    EXPECT_TRUE(stream.Finish().ok());
  }
  void PostOneByOne(const std::string& path, const std::string& body) const {
    HttpClient client(port_);
    for (int i = 0; i < kRequests; ++i) {
      const HttpReply reply = client.Post(path, body);
      ASSERT_EQ(reply.status, 200) << i << ": " << reply.body;
      ASSERT_TRUE(reply.whole);
    }
  }

  std::shared_ptr<grpc::Channel> channel_;
  int expected_refusals_ = 0;
};

v1::EncodeRequest EncodeRequestOf(const std::string& text) {
  v1::EncodeRequest request;
  request.add_inputs()->set_text(text);
  return request;
}

TEST_F(ProtocolPlacesTest, UnaryCalls) {
  Start();
  const auto stub = v1::Inference::NewStub(channel_);
  AskOneByOne(*stub, &v1::Inference::Stub::Generate, Request(), v1::GenerateResponse());
  AskOneByOne(*stub, &v1::Inference::Stub::Encode, EncodeRequestOf("a"), v1::EncodeResponse());
}

TEST_F(ProtocolPlacesTest, StreamsOfOneAnswer) {
  Start();
  const auto stub = v1::Inference::NewStub(channel_);
  for (int i = 0; i < kRequests; ++i) {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto stream = stub->GenerateStream(&context, Request());
    v1::GenerateStreamResponse response;
    while (stream->Read(&response)) {
    }
    const grpc::Status status = stream->Finish();
    ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
    ASSERT_TRUE(response.has_end());
  }
}

TEST_F(ProtocolPlacesTest, StreamsOfRequests) {
  Start();
  const auto stub = v1::Inference::NewStub(channel_);
  grpc::ClientContext generate;
  SetDeadline(generate);
  v1::GenerateRequest request = Request();
  request.set_request_id("a");
  AskOverStream<v1::GenerateManyResponse>(*stub->GenerateMany(&generate), request,
                                          [](const v1::GenerateManyResponse& response) {
                                            EXPECT_TRUE(response.has_response());
                                            return true;
                                          });
  grpc::ClientContext encode;
  SetDeadline(encode);
  v1::EncodeRequest text = EncodeRequestOf("a");
  text.set_request_id("a");
  AskOverStream<v1::EncodeManyResponse>(*stub->EncodeMany(&encode), text,
                                        [](const v1::EncodeManyResponse& response) {
                                          EXPECT_TRUE(response.has_response());
                                          return true;
                                        });
}

TEST_F(ProtocolPlacesTest, OpenInferenceProtocol) {
  Start();
  const auto stub = inference::GRPCInferenceService::NewStub(channel_);
  AskOneByOne(*stub, &inference::GRPCInferenceService::Stub::ModelInfer, TextRequest("writer", "p"),
              inference::ModelInferResponse());
  for (const bool in_parts : {false, true}) {
    InferRequest request = TextRequest("writer", "p");
    if (in_parts) AddRaw(request, "stream", "BOOL", {1}, std::string(1, '\1'));
    grpc::ClientContext context;
    SetDeadline(context);
    AskOverStream<inference::ModelStreamInferResponse>(
        *stub->ModelStreamInfer(&context), request,
        [](const inference::ModelStreamInferResponse& response) {
          EXPECT_EQ(response.error_message(), "");
          const auto& parameters = response.infer_response().parameters();
          return parameters.at("triton_final_response").bool_param();
        });
  }
}

TEST_F(ProtocolPlacesTest, TextEmbeddingsInference) {
  Start();
  const auto stub = tei::v1::Embed::NewStub(channel_);
  tei::v1::EmbedRequest request;
  request.set_inputs("a");
  AskOneByOne(*stub, &tei::v1::Embed::Stub::Embed, request, tei::v1::EmbedResponse());
  grpc::ClientContext context;
  SetDeadline(context);
  AskOverStream<tei::v1::EmbedResponse>(*stub->EmbedStream(&context), request,
                                        [](const auto&) { return true; });
}

TEST_F(ProtocolPlacesTest, Http) {
  Start();
  PostOneByOne("/v1/completions", kPrompt);
  PostOneByOne("/v1/completions", kStream);
  PostOneByOne("/v1/embeddings", R"({"input":"a"})");
}

TEST_F(ProtocolPlacesTest, HttpWithPromptsThatTakeAllPlaces) {
  Start(3);
  PostOneByOne("/v1/completions", R"({"model":"writer","prompt":["a","b","c"]})");
  PostOneByOne("/v1/completions", R"({"model":"writer","prompt":["a","b","c"],"stream":true})");
}

// Places bound what is kept for clients that do not read.
TEST_F(ProtocolPlacesTest, AnswersBeyondWhatMayBeUnreadKeepTheirPlaces) {
  ServerConfig config;
  config.max_concurrent_requests = 1;
  config.max_unread_bytes = 0;  // but for one
  ServeHttp(config);
  engine_->AnswerAll(TextResult(std::string(16 << 20, 't')));  // more than sockets take
  const auto is_answered = [this] { return Post("/v1/embeddings", R"({"input":"a"})").status; };
  HttpClient first(port_, 4096);
  first.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  EXPECT_TRUE(CounterReaches("beamline_http_answers_total", "status=200", 1));
  HttpClient second(port_, 4096);
  second.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  EXPECT_TRUE(CounterReaches("beamline_http_answers_total", "status=200", 2));
  EXPECT_EQ(is_answered(), 429);
  expected_refusals_ = 1;
  EXPECT_TRUE(second.Read().whole);
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=Generate model=none code=OK", 1));
  EXPECT_EQ(is_answered(), 200);
}

}  // namespace
}  // namespace beamline::protocol_places_test
