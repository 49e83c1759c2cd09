// ModelInfer and ModelStreamInfer over an engine that the test drives: parts and last answers,
// readers that are slow or go away, errors, and what is told of models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/server/protocols/infer_request.h"
#include "tests/server/service_fixture.h"
#include "tests/server/telemetry/log/log_capture.h"

namespace beamline::infer_service_test {
namespace {

using inference::GRPCInferenceService;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using testing::HasSubstr;

GenerateDelta TextDelta(const std::string& text, int32_t id) {
  return {.sequence = 0, .ids = {id}, .text = text};
}

bool IsFinal(const ModelInferResponse& response) {
  return response.parameters().at("triton_final_response").bool_param();
}

InferRequest StreamRequest(const std::string& id) {
  InferRequest request = TextRequest("writer", "p");
  request.set_id(id);
  AddRaw(request, "stream", "BOOL", {1}, std::string(1, '\1'));
  return request;
}

class InferServiceTest : public ServiceTest {
 protected:
  void Start(const ServerConfig& config = {}) {
    ModelOptions counted;
    counted.name = "writer";
    Serve(config, {counted});
    stub_ = GRPCInferenceService::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  grpc::Status Infer(const InferRequest& request, ModelInferResponse& response) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return stub_->ModelInfer(&context, request, &response);
  }
  template <typename Method, typename Request, typename Response>
  grpc::Status Ask(Method method, const Request& request, Response& response) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return (stub_.get()->*method)(&context, request, &response);
  }

  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};
using Stub = GRPCInferenceService::Stub;

TEST_F(InferServiceTest, AnswersOneRequest) {
  Start();
  InferRequest request = TextRequest("writer", "p");
  request.set_id("r");
  ModelInferResponse response;
  auto status = std::async(std::launch::async, [&] { return Infer(request, response); });
  const FakeRequest asked = engine_->WaitForRequest(0);
  EXPECT_EQ(std::get<std::string>(asked.request.prompt), "p");
  EXPECT_EQ(asked.request.request_id, "r");
  EXPECT_FALSE(asked.sink->wants_deltas());
  engine_->Finish(asked, TextResult("done"));
  ASSERT_TRUE(status.get().ok());
  EXPECT_EQ(TextsOf(response, "text_output"), std::vector<std::string>{"done"});
  EXPECT_EQ(response.id(), "r");
  EXPECT_TRUE(CounterReaches("beamline_requests_total",
                             "rpc=inference.ModelInfer model=writer code=OK", 1));

  request = TextRequest("embedder", "a");
  *request.mutable_raw_input_contents(0) = RawTexts({"a", "b"});
  request.mutable_inputs(0)->set_shape(0, 2);
  ASSERT_TRUE(Infer(request, response).ok());
  EXPECT_EQ(NumbersOf<float>(response, "embedding"), (std::vector<float>{0, 1, 1, 1}));
}

TEST_F(InferServiceTest, ErrorsAreStatuses) {
  Start();
  ModelInferResponse response;
  grpc::Status status = Infer(TextRequest("nobody", "p"), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("model_name is 'nobody'"));
  InferRequest request = TextRequest("writer", "p");
  request.set_model_version("x");
  EXPECT_THAT(Infer(request, response).error_message(), HasSubstr("model_version is 'x'"));
  request.set_model_version("7");
  status = Infer(request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "model_version is '7'; accepted: 1, or nothing");
  EXPECT_THAT(Infer(StreamRequest(""), response).error_message(),
              HasSubstr("stream is true; accepted: false; ModelStreamInfer"));
  engine_->Refuse(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Infer(TextRequest("writer", "p"), response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(InferServiceTest, StreamsAsItIsWritten) {
  Start();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(StreamRequest("one"));
  const FakeRequest asked = engine_->WaitForRequest(0);
  EXPECT_TRUE(asked.sink->wants_deltas());
  asked.sink->OnDelta(TextDelta("a", 1));
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.error_message(), "");
  EXPECT_EQ(message.infer_response().id(), "one");
  EXPECT_FALSE(IsFinal(message.infer_response()));
  std::string text = TextsOf(message.infer_response(), "text_output")[0];
  EXPECT_EQ(text, "a");
  EXPECT_EQ(OutputIndex(message.infer_response(), "finish_reason"), -1);
  // A second request of the same stream, answered meanwhile.
  InferRequest whole = TextRequest("embedder", "x");
  whole.set_id("two");
  stream->Write(whole);
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.infer_response().id(), "two");
  EXPECT_TRUE(IsFinal(message.infer_response()));

  for (int i = 0; i < 500; ++i) asked.sink->OnDelta(TextDelta("b", 2));
  engine_->Finish(asked, TextResult("unused"));
  bool final = false;
  while (!final && stream->Read(&message)) {
    for (const std::string& part : TextsOf(message.infer_response(), "text_output")) text += part;
    final = IsFinal(message.infer_response());
  }
  EXPECT_EQ(text, "a" + std::string(500, 'b'));
  EXPECT_EQ(TextsOf(message.infer_response(), "finish_reason"), std::vector<std::string>{"stop"});
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferServiceTest, TheLogTellsTheBytesOfAStreamsAnswers) {
  const LogCapture log(spdlog::level::info);
  ServerConfig config;
  config.log_requests = "all";
  Start(config);
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(StreamRequest("parts"));
  const FakeRequest asked = engine_->WaitForRequest(0);
  asked.sink->OnDelta(TextDelta("a", 1));
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  size_t bytes = message.ByteSizeLong();
  engine_->Finish(asked, TextResult("unused"));
  ASSERT_TRUE(stream->Read(&message));
  bytes += message.ByteSizeLong();
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
  server_.reset();  // its lines are written
  EXPECT_THAT(log.text(), HasSubstr("request_id=\"parts\" code=OK"));
  EXPECT_THAT(log.text(), HasSubstr(" answer_bytes=" + std::to_string(bytes) + " "));
}

TEST_F(InferServiceTest, AnErrorAnswersItsRequestAlone) {
  Start();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  InferRequest bad = StreamRequest("bad");
  *bad.mutable_raw_input_contents(0) = "torn";
  stream->Write(bad);
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.error_message(), HasSubstr("INVALID_ARGUMENT: input 'text_input' has raw"));
  EXPECT_EQ(message.infer_response().id(), "bad");
  EXPECT_TRUE(IsFinal(message.infer_response()));
  stream->Write(StreamRequest("late"));
  const FakeRequest asked = engine_->WaitForRequest(0);
  asked.sink->OnDelta(TextDelta("a", 1));
  ASSERT_TRUE(stream->Read(&message));
  engine_->Finish(asked, absl::UnavailableError("gone"));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.error_message(), "UNAVAILABLE: gone");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferServiceTest, ASlowReaderLosesNothing) {
  Start();
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(StreamRequest("slow"));
  const FakeRequest asked = engine_->WaitForRequest(0);
  const std::string piece(10000, 'x');
  for (int i = 0; i < 2000; ++i) asked.sink->OnDelta(TextDelta(piece, i));
  engine_->Finish(asked, TextResult(""));
  ModelInferResponse other;
  EXPECT_TRUE(Infer(TextRequest("embedder", "a"), other).ok());
  stream->WritesDone();
  size_t bytes = 0, ids = 0;
  ModelStreamInferResponse message;
  while (stream->Read(&message)) {
    for (const auto& part : TextsOf(message.infer_response(), "text_output")) bytes += part.size();
    ids += NumbersOf<int32_t>(message.infer_response(), "output_ids").size();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(bytes, piece.size() * 2000);
  EXPECT_EQ(ids, 2000u);
}

TEST_F(InferServiceTest, AClientThatGoesAwayCancels) {
  Start();
  {
    grpc::ClientContext context;
    const auto stream = stub_->ModelStreamInfer(&context);
    stream->Write(StreamRequest("a"));
    InferRequest whole = TextRequest("writer", "p");
    stream->Write(whole);
    engine_->WaitForRequest(1);
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(engine_->WaitForCancels(2));
  // What the engine still says must find a living call, and end it.
  const FakeRequest first = engine_->WaitForRequest(0);
  for (int i = 0; i < 100; ++i) first.sink->OnDelta(TextDelta("b", 2));
  engine_->Finish(first, absl::CancelledError("cancelled"));
  engine_->Finish(engine_->WaitForRequest(1), absl::CancelledError("cancelled"));
  EXPECT_TRUE(CounterReaches("beamline_requests_total",
                             "rpc=inference.ModelStreamInfer model=writer code=CANCELLED", 2));
}

TEST_F(InferServiceTest, APartThatIsTooLargeEndsItsRequest) {
  ServerConfig config;
  config.max_send_bytes = 2048;
  Start(config);
  grpc::ClientContext context;
  const auto stream = stub_->ModelStreamInfer(&context);
  stream->Write(StreamRequest("large"));
  const FakeRequest asked = engine_->WaitForRequest(0);
  asked.sink->OnDelta(TextDelta(std::string(5000, 'x'), 1));
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(asked, absl::CancelledError("cancelled"));
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.error_message(), HasSubstr("OUT_OF_RANGE: the answer has at least"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferServiceTest, TellsOfModels) {
  Start();
  inference::ServerLiveResponse live;
  ASSERT_TRUE(Ask(&Stub::ServerLive, inference::ServerLiveRequest(), live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(Ask(&Stub::ServerReady, inference::ServerReadyRequest(), ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelReadyRequest which;
  inference::ModelReadyResponse model_ready;
  for (const auto& [name, is_ready] :
       std::map<std::string, bool>{{"writer", true}, {"no", false}}) {
    which.set_name(name);
    ASSERT_TRUE(Ask(&Stub::ModelReady, which, model_ready).ok());
    EXPECT_EQ(model_ready.ready(), is_ready) << name;
  }
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(Ask(&Stub::ServerMetadata, inference::ServerMetadataRequest(), server).ok());
  EXPECT_EQ(server.name(), "beamline");

  inference::ModelMetadataRequest asked;
  inference::ModelMetadataResponse metadata;
  asked.set_name("writer");
  ASSERT_TRUE(Ask(&Stub::ModelMetadata, asked, metadata).ok());
  EXPECT_EQ(metadata.versions(0), "1");
  EXPECT_EQ(metadata.inputs(0).name(), "text_input");
  EXPECT_EQ(metadata.inputs(0).datatype(), "BYTES");
  asked.set_version("2");
  EXPECT_EQ(Ask(&Stub::ModelMetadata, asked, metadata).error_code(), grpc::StatusCode::NOT_FOUND);

  inference::ModelConfigRequest config_request;
  inference::ModelConfigResponse config;
  for (const auto& [name, decoupled] :
       std::map<std::string, bool>{{"writer", true}, {"embedder", false}}) {
    config_request.set_name(name);
    ASSERT_TRUE(Ask(&Stub::ModelConfig, config_request, config).ok());
    EXPECT_EQ(config.config().model_transaction_policy().decoupled(), decoupled);
    EXPECT_EQ(config.config().instance_group(0).count(), 1);
  }
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(Ask(&Stub::RepositoryIndex, inference::RepositoryIndexRequest(), index).ok());
  ASSERT_EQ(index.models_size(), 2);
  EXPECT_EQ(index.models(1).name(), "embedder");
  EXPECT_EQ(index.models(1).state(), "READY");
  inference::RepositoryModelLoadResponse loaded;
  const grpc::Status load =
      Ask(&Stub::RepositoryModelLoad, inference::RepositoryModelLoadRequest(), loaded);
  EXPECT_EQ(load.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(load.error_message(), HasSubstr("beamline.v1.Models/LoadModel"));
}

TEST_F(InferServiceTest, StatisticsCountWhatWasAnswered) {
  Start();
  ModelInferResponse response;
  auto status =
      std::async(std::launch::async, [&] { return Infer(TextRequest("writer", "p"), response); });
  GenerateResult result = TextResult("done");
  result.timing = {.queue = std::chrono::milliseconds(2), .total = std::chrono::milliseconds(5)};
  engine_->Finish(engine_->WaitForRequest(0), result);
  ASSERT_TRUE(status.get().ok());
  InferRequest bad = TextRequest("writer", "p");
  *bad.mutable_raw_input_contents(0) = "torn";
  EXPECT_FALSE(Infer(bad, response).ok());
  ASSERT_TRUE(CounterReaches("beamline_requests_total",
                             "rpc=inference.ModelInfer model=writer code=INVALID_ARGUMENT", 1));
  inference::ModelStatisticsRequest request;
  inference::ModelStatisticsResponse statistics;
  request.set_name("writer");
  ASSERT_TRUE(Ask(&Stub::ModelStatistics, request, statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  const auto& of = statistics.model_stats(0);
  EXPECT_EQ(of.inference_count(), 1u);
  EXPECT_GT(of.last_inference(), 1'600'000'000'000u);
  EXPECT_EQ(of.inference_stats().success().count(), 1u);
  EXPECT_GT(of.inference_stats().success().ns(), 0u);
  EXPECT_EQ(of.inference_stats().fail().count(), 1u);
  EXPECT_EQ(of.inference_stats().queue().ns(), 2'000'000u);
  EXPECT_EQ(of.inference_stats().compute_infer().ns(), 3'000'000u);
  request.clear_name();
  ASSERT_TRUE(Ask(&Stub::ModelStatistics, request, statistics).ok());
  EXPECT_EQ(statistics.model_stats_size(), 2);
}

TEST_F(InferServiceTest, ADrainRefusesAndIsNotReady) {
  Start();
  ModelInferResponse response;
  auto status =
      std::async(std::launch::async, [&] { return Infer(TextRequest("writer", "p"), response); });
  const FakeRequest asked = engine_->WaitForRequest(0);
  auto drained = std::async(std::launch::async,
                            [&] { return server_->Drain(std::chrono::milliseconds(20000)); });
  ASSERT_TRUE(engine_->WaitForDrain());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(Ask(&Stub::ServerReady, inference::ServerReadyRequest(), ready).ok());
  EXPECT_FALSE(ready.ready());
  ModelInferResponse other;
  EXPECT_EQ(Infer(TextRequest("writer", "p"), other).error_code(), grpc::StatusCode::UNAVAILABLE);
  engine_->Finish(asked, TextResult("done"));
  EXPECT_TRUE(status.get().ok());
  EXPECT_TRUE(drained.get());
}

TEST_F(InferServiceTest, ProtocolsThatAreOffAreNotThere) {
  ServerConfig config;
  config.protocols = "tei";
  Start(config);
  inference::ServerLiveResponse live;
  EXPECT_EQ(Ask(&Stub::ServerLive, inference::ServerLiveRequest(), live).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamline::infer_service_test
