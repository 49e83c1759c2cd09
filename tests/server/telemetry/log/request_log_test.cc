#include "server/telemetry/log/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <sstream>
#include <thread>

#include "base/field_error.h"
#include "base/json.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/telemetry/log/log_event.h"
#include "server/telemetry/log/log_format.h"
#include "spdlog/spdlog.h"
#include "tests/server/service_fixture.h"
#include "tests/server/telemetry/log/log_capture.h"

namespace beamline::request_log_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RequestLog, ALineTellsTheRequest) {
  CallRecord record = {.rpc = Rpc::kScore,
                       .model = "write-en",
                       .code = absl::StatusCode::kOutOfRange,
                       .duration = std::chrono::microseconds(1500)};
  record.request_id = "a7";
  EXPECT_EQ(RequestLine(record),
            "request rpc=Score model=\"write-en\" request_id=\"a7\" code=OUT_OF_RANGE "
            "seconds=0.001500");
  record.fault = "step failed";
  EXPECT_THAT(RequestLine(record), HasSubstr(" fault=\"step failed\""));
}

CallRecord Answered() {
  CallRecord record = {
      .rpc = Rpc::kGenerate, .model = "write-en", .duration = std::chrono::microseconds(1500)};
  record.timing = {.queue = std::chrono::microseconds(100),
                   .first_token = std::chrono::microseconds(700),
                   .total = std::chrono::microseconds(1400)};
  record.usage = {.prompt_tokens = 7, .cached_tokens = 3, .generated_tokens = 11};
  record.request_id = "a\xFF\"7";
  record.client = "team-a";
  record.peer = "ipv4:10.0.0.7:41234";
  record.trace = {.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736", .span_id = "00f067aa0ba902b7"};
  record.request_bytes = 61;
  record.answer_bytes = 412;
  return record;
}

TEST(RequestLog, ALineTellsTheCallerTheTraceTheSizesAndTheTimes) {
  EXPECT_EQ(RequestLine(Answered()),
            "request rpc=Generate model=\"write-en\" request_id=\"a\\377\\\"7\" code=OK "
            "seconds=0.001500 client=\"team-a\" peer=\"ipv4:10.0.0.7:41234\" "
            "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 parent_span_id=00f067aa0ba902b7 "
            "request_bytes=61 answer_bytes=412 prompt_tokens=7 cached_tokens=3 "
            "generated_tokens=11 queue_seconds=0.000100 first_token_seconds=0.000700");
}

TEST(RequestLog, TheSameAsJson) {
  CallRecord record = Answered();
  record.is_identity = true;
  const auto line = ParseJsonObject(RequestLine(record, /*json=*/true), "line");
  ASSERT_TRUE(line.ok()) << line.status();
  const nlohmann::json expected = {{"event", "request"},
                                   {"rpc", "Generate"},
                                   {"model", "write-en"},
                                   {"request_id", "a\xEF\xBF\xBD\"7"},
                                   {"code", "OK"},
                                   {"seconds", 0.0015},
                                   {"identity", "team-a"},
                                   {"peer", "ipv4:10.0.0.7:41234"},
                                   {"trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"},
                                   {"parent_span_id", "00f067aa0ba902b7"},
                                   {"request_bytes", 61},
                                   {"answer_bytes", 412},
                                   {"prompt_tokens", 7},
                                   {"cached_tokens", 3},
                                   {"generated_tokens", 11},
                                   {"queue_seconds", 0.0001},
                                   {"first_token_seconds", 0.0007}};
  EXPECT_EQ(*line, expected);
}

TEST(RequestLog, TimesAreRoundedToMicroseconds) {
  for (const auto& [ns, text] :
       std::initializer_list<std::pair<int64_t, const char*>>{{0, "0.000000"},
                                                              {499, "0.000000"},
                                                              {501, "0.000001"},
                                                              {999'999'600, "1.000000"},
                                                              {1'000'001'000, "1.000001"},
                                                              {123'456'789'000, "123.456789"},
                                                              {-1'500'000, "-0.001500"}}) {
    EventLine line("event", /*json=*/false);
    line.AddSeconds("seconds", std::chrono::nanoseconds(ns));
    EXPECT_EQ(line.End(), std::string("event seconds=") + text);
  }
}

TEST(RequestLog, EveryLineAsJsonIsAnObject) {
  const auto formatter = MakeLogFormatter(/*json=*/true);
  for (const std::string& message :
       {std::string("model 'a' \"quoted\"\xFF\n"), RequestLine(Answered(), /*json=*/true)}) {
    spdlog::memory_buf_t out;
    formatter->format({"logger", spdlog::level::warn, message}, out);
    const std::string line(out.data(), out.size());
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    const auto object = ParseJsonObject(line, "line");
    ASSERT_TRUE(object.ok()) << line;
    EXPECT_EQ((*object)["level"], "warning");
    EXPECT_TRUE(object->contains("time"));
    EXPECT_EQ(object->contains("message"), !object->contains("event")) << line;
  }
}

TEST(RequestLog, AllRequestsHaveLinesWhereTheyAreAskedFor) {
  const LogCapture log(spdlog::level::info);
  CallRecord record;
  LogRequest(record);
  EXPECT_EQ(log.text(), "");
  LogRequest(record, {.all = true});
  record.code = absl::StatusCode::kUnavailable;
  LogRequest(record, {.all = true});
  EXPECT_THAT(log.text(),
              HasSubstr("info request rpc=Generate model=\"\" request_id=\"\" code=OK"));
  EXPECT_THAT(log.text(), HasSubstr("code=UNAVAILABLE"));
}

TEST(RequestLog, ClientsCannotWriteLinesOfTheirOwn) {
  CallRecord record;
  record.request_id = "x\" code=OK\r\n2026-01-01 error \x1B[31mfeigned\xC2\x85\xE2\x80\xA8\xFF";
  const std::string line = RequestLine(record);
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  EXPECT_THAT(line, HasSubstr("request_id=\"x\\\" code=OK\\r\\n2026"));
  record.request_id = std::string(100000, 'x');
  EXPECT_LT(RequestLine(record).size(), 400u);
}

TEST(RequestLog, LevelsTellFaultsFromErrorsFromTheRest) {
  const LogCapture log(spdlog::level::debug);
  CallRecord record;
  LogRequest(record);
  record.code = absl::StatusCode::kResourceExhausted;
  LogRequest(record);
  record.code = absl::StatusCode::kInvalidArgument;
  LogRequest(record);
  record.code = absl::StatusCode::kInternal;
  record.fault = "why";
  LogRequest(record);
  std::istringstream lines(log.text());
  for (const char* level : {"debug", "debug", "info", "error"}) {
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line.substr(0, line.find(' ')), level) << line;
  }
}

class RequestLogTest : public ServiceTest {
 protected:
  void TearDown() override {
    client_.reset();
    server_.reset();  // before the capture, which its threads log to
  }

  // The log, once it has the text: a call's line follows its status.
  std::string WaitFor(const std::string& text) {
    for (int i = 0; i < 2000 && log_.text().find(text) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return log_.text();
  }

  LogCapture log_{spdlog::level::info};
};

TEST_F(RequestLogTest, FailedRequestsAreLoggedUnderTheirIds) {
  Serve();
  v1::GenerateRequest request = Request();
  request.set_request_id("refused-1");
  engine_->Refuse(FieldError("limits.max_new_tokens", "0", "1 to 9"));
  EXPECT_FALSE(client_->Generate(request, kSoon).ok());
  EXPECT_THAT(WaitFor("refused-1"), HasSubstr("info request rpc=Generate model=\"writer\" "
                                              "request_id=\"refused-1\" code=INVALID_ARGUMENT"));
  request.set_request_id("fault-2");
  engine_->Refuse(absl::InternalError("/models/secret.bin is torn"));
  const auto ignore = [](const v1::GenerateStreamResponse&) { return true; };
  const absl::Status status = client_->GenerateStream(request, ignore, kSoon).status();
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  EXPECT_THAT(WaitFor("fault-2"),
              HasSubstr("error request rpc=GenerateStream model=\"writer\" request_id=\"fault-2\" "
                        "code=INTERNAL"));
  EXPECT_THAT(log_.text(), HasSubstr("fault=\"/models/secret.bin is torn\""));
  // A text that is not UTF-8 does not hide the id.
  engine_->Refuse(absl::OkStatus());
  request.set_request_id("bytes-3");
  request.mutable_prompt()->set_text("\xFF");
  EXPECT_FALSE(client_->Generate(request, kSoon).ok());
  EXPECT_THAT(WaitFor("bytes-3"), HasSubstr("request_id=\"bytes-3\" code=INVALID_ARGUMENT"));
}

// Of every RPC whose request comes to the server, whatever becomes of it.
TEST_F(RequestLogTest, EveryRpcTellsItsCallerAndItsTrace) {
  ServerConfig config;
  config.log_requests = "all";
  Serve(config);
  engine_->Refuse(absl::ResourceExhaustedError("full"));
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  const auto inference = v1::Inference::NewStub(channel);
  const auto models = v1::Models::NewStub(channel);
  const auto call = [](const auto& method) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("x-client-id", "team-a");
    context.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
    method(context);
  };
  const auto unary = [&](auto stub, auto method, const auto& request, auto response) {
    call([&](grpc::ClientContext& context) {
      static_cast<void>((stub->*method)(&context, request, &response));
    });
  };
  using Inference = v1::Inference::Stub;
  using Models = v1::Models::Stub;
  unary(inference.get(), &Inference::Generate, Request(), v1::GenerateResponse());
  unary(inference.get(), &Inference::Encode, v1::EncodeRequest(), v1::EncodeResponse());
  unary(inference.get(), &Inference::Score, v1::ScoreRequest(), v1::ScoreResponse());
  unary(inference.get(), &Inference::Tokenize, v1::TokenizeRequest(), v1::TokenizeResponse());
  unary(inference.get(), &Inference::Detokenize, v1::DetokenizeRequest(), v1::DetokenizeResponse());
  unary(models.get(), &Models::ListModels, v1::ListModelsRequest(), v1::ListModelsResponse());
  unary(models.get(), &Models::GetModel, v1::GetModelRequest(), v1::Model());
  call([&](grpc::ClientContext& context) {
    v1::GenerateStreamResponse message;
    const auto reader = inference->GenerateStream(&context, Request());
    while (reader->Read(&message)) {
    }
    static_cast<void>(reader->Finish());
  });
  call([&](grpc::ClientContext& context) {
    const auto stream = inference->GenerateMany(&context);
    stream->Write(Request());
    stream->WritesDone();
    v1::GenerateManyResponse message;
    while (stream->Read(&message)) {
    }
    static_cast<void>(stream->Finish());
  });
  for (const char* rpc : {"Generate", "Encode", "Score", "Tokenize", "Detokenize", "ListModels",
                          "GetModel", "GenerateStream", "GenerateMany"}) {
    const std::string begin = std::string("info request rpc=") + rpc + " ";
    const std::string log = WaitFor(begin);
    const size_t at = log.find(begin);
    ASSERT_NE(at, std::string::npos) << rpc;
    const std::string line = log.substr(at, log.find('\n', at) - at);
    EXPECT_THAT(line, HasSubstr(" client=\"team-a\" peer=\"ipv4:127.0.0.1:"));
    EXPECT_THAT(line, HasSubstr(" trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
                                "parent_span_id=00f067aa0ba902b7"));
  }
}

}  // namespace
}  // namespace beamline::request_log_test
