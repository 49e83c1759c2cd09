// Long because every answer of OpenAI's API over HTTP has a case: what a request becomes, what
// comes back, and each status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "base/build_info.h"
#include "base/field_error.h"
#include "tests/server/http/http_fixture.h"

namespace beamline::http_service_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class HttpServiceTest : public HttpTest {
 protected:
  // The answer to a body; the engine's request is ended with `result`.
  HttpReply Complete(const std::string& body, absl::StatusOr<GenerateResult> result,
                     const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    auto reply =
        std::async(std::launch::async, [&] { return Post("/v1/completions", body, headers); });
    last_ = engine_->WaitForRequest(num_answered_++);
    engine_->Finish(last_, std::move(result));
    return reply.get();
  }

  FakeRequest last_;
  size_t num_answered_ = 0;
};

GenerateResult TwoTexts() {
  GenerateResult result = TextResult("one", FinishReason::kStop);
  result.sequences.push_back(TextResult("two", FinishReason::kLength).sequences[0]);
  result.usage = {.prompt_tokens = 3, .cached_tokens = 2, .generated_tokens = 5};
  return result;
}

TEST_F(HttpServiceTest, AnswersCompletions) {
  ServeHttp();
  const HttpReply reply = Complete(R"({"model":"writer","prompt":"p","n":2,"max_tokens":7})",
                                   TwoTexts(), {{"x-request-id", "mine-1"}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  EXPECT_EQ(reply.headers.at("x-request-id"), "mine-1");
  EXPECT_FALSE(reply.headers.contains("connection"));
  json answer = reply.json();
  EXPECT_GT(answer["created"].get<int64_t>(), 1700000000);
  answer.erase("created");
  EXPECT_EQ(answer, json::parse(R"({"id":"cmpl-mine-1","object":"text_completion",
    "model":"writer","choices":[
      {"index":0,"text":"one","logprobs":null,"finish_reason":"stop"},
      {"index":1,"text":"two","logprobs":null,"finish_reason":"length"}],
    "usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,
             "prompt_tokens_details":{"cached_tokens":2}}})"));
  EXPECT_EQ(last_.request.limits.max_new_tokens, 7);
  EXPECT_EQ(last_.request.request_id, "mine-1");
  EXPECT_EQ(last_.request.client, "ipv4:127.0.0.1");
  EXPECT_FALSE(last_.request.deadline.has_value());
  EXPECT_GT(last_.request.max_answer_bytes, 0);
}

TEST_F(HttpServiceTest, CountsItsCallsAsThoseOfGrpc) {
  ServeHttp({}, {{.name = "writer"}, {.name = "embedder"}});
  EXPECT_EQ(Complete(kPrompt, TextResult("t")).status, 200);
  EXPECT_EQ(Post("/v1/completions", R"({"model":"writer"})").status, 400);
  EXPECT_EQ(Post("/v1/embeddings", R"({"input":"a"})").status, 200);
  EXPECT_EQ(Get("/v1/models").status, 200);
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=Generate model=writer code=OK", 1));
  EXPECT_TRUE(CounterReaches("beamline_requests_total",
                             "rpc=Generate model=none code=INVALID_ARGUMENT", 1));
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=Encode model=embedder code=OK", 1));
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=ListModels model=none code=OK", 1));
  EXPECT_EQ(Counter("beamline_http_answers_total", "status=200"), 3);
  EXPECT_EQ(Counter("beamline_http_answers_total", "status=400"), 1);
}

TEST_F(HttpServiceTest, AnswersPromptsOfAListTogether) {
  ServeHttp();
  auto reply = std::async(std::launch::async, [&] {
    return Post("/v1/completions", R"({"model":"writer","prompt":["a",[1,2],"c"]})");
  });
  const FakeRequest first = engine_->WaitForRequest(0);
  const FakeRequest second = engine_->WaitForRequest(1);
  const FakeRequest third = engine_->WaitForRequest(2);
  EXPECT_EQ(std::get<TokenIds>(second.request.prompt), (TokenIds{1, 2}));
  engine_->Finish(third, TextResult("C"));
  engine_->Finish(first, TextResult("A"));
  engine_->Finish(second, TextResult("B"));
  const json choices = reply.get().json()["choices"];
  ASSERT_EQ(choices.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], std::string(1, static_cast<char>('A' + i)));
  }
}

TEST_F(HttpServiceTest, OnePromptsErrorIsTheAnswerAndEndsTheOthers) {
  ServeHttp();
  auto reply = std::async(std::launch::async, [&] {
    return Post("/v1/completions", R"({"model":"writer","prompt":["a","b"]})");
  });
  const FakeRequest first = engine_->WaitForRequest(0);
  engine_->Finish(engine_->WaitForRequest(1), FieldError("prompt", "long", "less"));
  EXPECT_TRUE(engine_->WaitForCancels(1));
  // Whoever has the error finds the places of all.
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  engine_->Finish(first, absl::CancelledError("cancelled"));
  const HttpReply answer = reply.get();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error("message"), "prompt[1] is long; accepted: less");
  EXPECT_EQ(answer.error("param"), "prompt[1]");
}

TEST_F(HttpServiceTest, ARefusedListLeavesItsPlacesFree) {
  ServerConfig config;
  config.max_concurrent_requests = 3;
  ServeHttp(config);
  HttpClient running(port_), client(port_);
  running.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  const FakeRequest first = engine_->WaitForRequest(0);
  const std::string three = R"({"model":"writer","prompt":["a","b","c"]})";
  const std::string two = R"({"model":"writer","prompt":["a","b"]})";
  for (size_t i = 0; i < 100; ++i) {
    // Nothing of it is begun.
    ASSERT_EQ(client.Post("/v1/completions", three).status, 429);
    ASSERT_EQ(engine_->num_requests(), 1 + 2 * i);
    // All of what fits, and again after its error, which the engine tells when all have ended.
    client.Send(HttpClient::Format("POST", "/v1/completions", two));
    engine_->Finish(engine_->WaitForRequest(2 + 2 * i), FieldError("prompt", "long", "less"));
    ASSERT_TRUE(engine_->WaitForCancels(static_cast<int>(2 + 2 * i)));
    engine_->Finish(engine_->WaitForRequest(1 + 2 * i), absl::CancelledError("cancelled"));
    ASSERT_EQ(client.Read().status, 400);
  }
  engine_->Finish(first, TextResult("t"));
  EXPECT_EQ(running.Read().status, 200);
}

TEST_F(HttpServiceTest, StreamsEventsInOrder) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format(
      "POST", "/v1/completions",
      R"({"model":"writer","prompt":"p","stream":true,"stream_options":{"include_usage":true}})"));
  const FakeRequest request = engine_->WaitForRequest(0);
  ASSERT_TRUE(request.sink->wants_deltas());
  std::string text;
  for (int i = 0; i < 500; ++i) {
    request.sink->OnDelta({.sequence = 0, .text = std::to_string(i) + "\n"});
    text += std::to_string(i) + "\n";
  }
  engine_->Finish(request, TextResult(text));
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<std::string> events = EventsOf(reply.body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  const json usage = json::parse(events[events.size() - 2]);
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 1);
  const json last = json::parse(events[events.size() - 3]);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(last["usage"], nullptr);
  std::string received;
  for (size_t i = 0; i + 3 < events.size(); ++i) {
    const json event = json::parse(events[i]);
    EXPECT_EQ(event["id"], "cmpl-" + reply.headers.at("x-request-id"));
    EXPECT_EQ(event["choices"][0]["finish_reason"], nullptr);
    received += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(received, text);
  // The connection goes on.
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST_F(HttpServiceTest, TellsUsageInEveryEvent) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions",
                                 R"({"model":"writer","prompt":"p","n":2,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true}})"));
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_TRUE(request.request.output.return_token_ids);
  for (const int32_t sequence : {0, 1, 0}) {
    request.sink->OnDelta({.sequence = sequence, .ids = {7, 8}, .text = "t"});
  }
  engine_->Finish(request, TwoTexts());
  const std::vector<std::string> events = EventsOf(client.Read().body);
  ASSERT_GE(events.size(), 5U);
  int64_t told = 0;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const json usage = json::parse(events[i])["usage"];
    EXPECT_EQ(usage["prompt_tokens"], nullptr);  // known at the end
    EXPECT_GE(usage["completion_tokens"].get<int64_t>(), told);
    told = usage["completion_tokens"].get<int64_t>();
  }
  EXPECT_EQ(told, 6);
  EXPECT_GT(json::parse(events[0])["usage"]["completion_tokens"].get<int64_t>(), 0);
  EXPECT_EQ(json::parse(events[events.size() - 2])["usage"]["prompt_tokens"], 3);
  const HttpReply refused = Post("/v1/completions", R"({"model":"writer","prompt":"p","echo":true,
      "stream":true,"stream_options":{"continuous_usage_stats":true}})");
  EXPECT_EQ(refused.error("message"),
            "stream_options.continuous_usage_stats is true; accepted: false with echo");
}

TEST_F(HttpServiceTest, AStreamThatFailsBeforeItBeginsHasAStatus) {
  ServeHttp();
  const HttpReply reply = Complete(kStream, FieldError("prompt", "9 tokens", "at most 8"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.error("message"), "prompt is 9 tokens; accepted: at most 8");
}

TEST_F(HttpServiceTest, AStreamThatFailsLaterEndsWithTheError) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions", kStream));
  const FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta({.sequence = 0, .text = "begun"});
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(client.ReadHead(soon).status, 200);
  EXPECT_THAT(*client.ReadChunk(soon), HasSubstr("\"begun\""));
  engine_->Finish(request, absl::UnavailableError("the device has failed"));
  const std::vector<std::string> events = EventsOf(*client.ReadChunk(soon));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(json::parse(events[0])["error"]["message"], "the device has failed");
  EXPECT_EQ(events[1], "[DONE]");
}

TEST_F(HttpServiceTest, DeadlinesAre504) {
  ServeHttp();
  GenerateResult late = TextResult("half", FinishReason::kDeadline);
  const HttpReply reply = Complete(kPrompt, late, {{"x-request-timeout-ms", "60000"}});
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(reply.error("code"), "deadline_exceeded");
  ASSERT_TRUE(last_.request.deadline.has_value());
  EXPECT_LT(*last_.request.deadline, Clock::now() + std::chrono::seconds(60));
  for (const char* wrong : {"0", "soon", "", "86400001", "-5"}) {
    const HttpReply refused = Post("/v1/completions", kPrompt, {{"x-request-timeout-ms", wrong}});
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_EQ(refused.error("param"), "x-request-timeout-ms");
  }
}

TEST_F(HttpServiceTest, RefusalsHaveTheirStatusAndRetryAfter) {
  ServeHttp();
  engine_->Refuse(absl::ResourceExhaustedError("the queue is full"));
  HttpReply reply = Post("/v1/completions", kPrompt);
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  EXPECT_EQ(reply.error("type"), "rate_limit_error");
  EXPECT_EQ(reply.error("message"), "the queue is full");
  absl::Status later = absl::ResourceExhaustedError("too late");
  later.SetPayload(kRetryAfterPayload, absl::Cord("2500"));
  engine_->Refuse(later);
  EXPECT_EQ(Post("/v1/completions", kPrompt).headers.at("retry-after"), "3");
  engine_->Refuse(absl::UnavailableError("the device has failed"));
  reply = Post("/v1/completions", kPrompt);
  EXPECT_EQ(reply.status, 503);
  EXPECT_TRUE(reply.headers.contains("retry-after"));
  engine_->Refuse(absl::InternalError("/srv/secret: broken"));
  reply = Post("/v1/completions", kPrompt);
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.error("message"), "internal error; the server's log has the reason");
  EXPECT_EQ(Counter("beamline_rejected_total", "reason=queue_full"), 2);
}

TEST_F(HttpServiceTest, TooManyCallsAre429) {
  ServerConfig config;
  config.max_concurrent_requests = 1;
  ServeHttp(config);
  auto first = std::async(std::launch::async, [&] { return Post("/v1/completions", kPrompt); });
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(Post("/v1/completions", kPrompt).status, 429);
  EXPECT_EQ(Post("/v1/embeddings", R"({"input":"a"})").status, 429);
  engine_->Finish(request, TextResult("t"));
  EXPECT_EQ(first.get().status, 200);
  // To try again would not help.
  const HttpReply refused = Post("/v1/completions", R"({"model":"writer","prompt":["a","b"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.error("message"), "prompt has 2 entries; accepted: at most 1");
}

TEST_F(HttpServiceTest, NamesUnknownModelsAndFields) {
  ServeHttp();
  HttpReply reply = Post("/v1/completions", R"({"model":"nobody","prompt":"p"})");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.error("code"), "model_not_found");
  EXPECT_THAT(reply.error("message"), HasSubstr("nobody"));
  reply = Post("/v1/completions", R"({"model":"embedder","prompt":"p"})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.error("param"), "model");
  reply = Post("/v1/completions", R"({"model":"writer","prompt":"p","color":"red"})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.error("param"), "color");
  EXPECT_EQ(Post("/v1/embeddings", R"({"model":"nobody","input":"p"})").status, 404);
  EXPECT_EQ(Post("/v1/completions", "{").status, 400);
}

TEST_F(HttpServiceTest, Embeds) {
  ServeHttp();
  HttpReply reply = Post("/v1/embeddings", R"({"model":"embedder","input":["a","b"]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json(), json::parse(R"({"object":"list","model":"embedder","data":[
    {"object":"embedding","index":0,"embedding":[0,1]},
    {"object":"embedding","index":1,"embedding":[1,1]}],
    "usage":{"prompt_tokens":0,"total_tokens":0}})"));
  reply = Post("/v1/embeddings", R"({"input":"a","encoding_format":"base64"})");
  std::string bytes;
  ASSERT_TRUE(
      absl::Base64Unescape(reply.json()["data"][0]["embedding"].get<std::string>(), &bytes));
  EXPECT_EQ(bytes, std::string("\0\0\0\0\0\0\x80\x3f", 8));
}

TEST_F(HttpServiceTest, ListsModelsAndTellsHealth) {
  ServeHttp();
  const json list = Get("/v1/models").json();
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "writer");
  EXPECT_EQ(list["data"][1]["object"], "model");
  EXPECT_EQ(Get("/v1/models/embedder").json()["id"], "embedder");
  EXPECT_EQ(Get("/v1/models/embe%64der").json()["id"], "embedder");
  EXPECT_EQ(Get("/v1/models/nobody").status, 404);
  EXPECT_EQ(Get("/v1/models/").status, 404);
  EXPECT_EQ(Get("/health").json()["status"], "SERVING");
  EXPECT_EQ(Get("/v1/health").status, 200);
  engine_->Break("writer", absl::UnavailableError("gone"));
  EXPECT_EQ(Get("/health").status, 503);
}

TEST_F(HttpServiceTest, HasMetricsAndVersionOnRequest) {
  ServeHttp();
  EXPECT_EQ(Get("/metrics").status, 404);
  const HttpReply none = Get("/version");
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(none.error("message"), testing::Not(HasSubstr("/metrics")));
  ServerConfig config;
  config.http_paths = "version";
  ServeHttp(config);
  EXPECT_EQ(Get("/version").json(), json({{"version", ThisBuild().version}}));
  EXPECT_EQ(Get("/metrics").status, 404);
  config.http_paths = "metrics, version";
  ServeHttp(config);
  HttpClient client(port_);
  for (int i = 0; i < 3; ++i) {
    const HttpReply metrics = client.Get("/metrics");
    EXPECT_EQ(metrics.status, 200);
    EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_THAT(metrics.body, HasSubstr("\nbeamline_http_answers_total{"));
  }
  EXPECT_EQ(client.Post("/metrics", "").status, 405);
  EXPECT_THAT(Get("/").error("message"), HasSubstr("GET /metrics"));
}

TEST_F(HttpServiceTest, AnswersOtherPathsAndMethods) {
  ServeHttp();
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Get("/v1/completions/").status, 404);
  EXPECT_EQ(Get("/v1/models?x=1").status, 200);
  HttpReply reply = Get("/v1/completions");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  EXPECT_EQ(Post("/v1/models", "").status, 405);
  EXPECT_EQ(Say("GET http://there/health HTTP/1.1\r\nHost: there\r\n\r\n").status, 200);
  HttpClient client(port_);
  client.Send(HttpClient::Format("HEAD", "/v1/models"));
  reply = client.Read(std::chrono::seconds(20), /*has_body=*/false);
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.headers.at("content-length"), "0");
  EXPECT_EQ(client.Get("/health").status, 200) << "no body has come in between";
  reply =
      Say("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n"
          "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(reply.status, 415);
  EXPECT_EQ(Post("/v1/completions", "x", {{"Content-Encoding", "gzip"}}).status, 415);
}

TEST_F(HttpServiceTest, AClientThatGoesEndsItsWork) {
  ServeHttp({}, {{.name = "writer"}});
  HttpClient whole(port_);
  whole.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  const FakeRequest first = engine_->WaitForRequest(0);
  whole.Close();
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(first, absl::CancelledError("cancelled"));
  HttpClient stream(port_);
  stream.Send(HttpClient::Format("POST", "/v1/completions", kStream));
  const FakeRequest second = engine_->WaitForRequest(1);
  second.sink->OnDelta({.sequence = 0, .text = "begun"});
  stream.ReadHead(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  stream.Reset();
  EXPECT_TRUE(engine_->WaitForCancels(2));
  engine_->Finish(second, absl::CancelledError("cancelled"));
  EXPECT_TRUE(
      CounterReaches("beamline_requests_total", "rpc=Generate model=writer code=CANCELLED", 1));
  EXPECT_TRUE(CounterReaches("beamline_requests_total",
                             "rpc=GenerateStream model=writer code=CANCELLED", 1));
  EXPECT_TRUE(ConnectionsBecome(0));
}

TEST_F(HttpServiceTest, AHalfClosedConnectionCountsAsGoneButGetsItsAnswer) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  const FakeRequest request = engine_->WaitForRequest(0);
  client.HalfClose();
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(request, absl::CancelledError("cancelled"));
  EXPECT_EQ(client.Read().status, 499);
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServiceTest, ASlowReaderBlocksNobodyAndLosesNothing) {
  ServeHttp();
  HttpClient slow(port_, 4096);
  slow.Send(HttpClient::Format("POST", "/v1/completions", kStream));
  const FakeRequest request = engine_->WaitForRequest(0);
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    std::string piece = std::to_string(i) + std::string(5000, 'x');
    text += piece;
    request.sink->OnDelta({.sequence = 0, .text = std::move(piece)});
  }
  EXPECT_EQ(Get("/health").status, 200);
  engine_->Finish(request, TextResult(""));
  const HttpReply reply = slow.Read(std::chrono::seconds(60));
  std::string received;
  for (const std::string& event : EventsOf(reply.body)) {
    const json parsed = json::parse(event, nullptr, false);
    if (parsed.is_object()) received += parsed["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(received.size(), text.size());
  EXPECT_EQ(received == text, true);
}

TEST_F(HttpServiceTest, DrainsWhileItStreams) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions", kStream));
  const FakeRequest request = engine_->WaitForRequest(0);
  HttpClient idle(port_);
  ASSERT_EQ(idle.Get("/health").status, 200);
  auto drained =
      std::async(std::launch::async, [&] { return server_->Drain(std::chrono::seconds(20)); });
  ASSERT_TRUE(engine_->WaitForDrain());
  const HttpReply refused = idle.Post("/v1/completions", kPrompt);
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_EQ(Get("/health").status, 503);
  request.sink->OnDelta({.sequence = 0, .text = "last"});
  engine_->Finish(request, TextResult("last"));
  const HttpReply reply = client.Read();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(EventsOf(reply.body).back(), "[DONE]");
  EXPECT_TRUE(client.IsClosed());
  EXPECT_TRUE(drained.get());
  EXPECT_FALSE(HttpClient(port_).connected());
}

TEST_F(HttpServiceTest, ItsEndCancelsWhatRuns) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions", kStream));
  const FakeRequest request = engine_->WaitForRequest(0);
  auto finish = std::async(std::launch::async, [&] {
    EXPECT_TRUE(engine_->WaitForCancels(1));
    engine_->Finish(request, absl::CancelledError("cancelled"));
  });
  server_->Drain(std::chrono::milliseconds(0));
  auto ended = std::async(std::launch::async, [&] { server_.reset(); });
  finish.get();
  ended.get();
  EXPECT_TRUE(client.IsClosed());
}

}  // namespace
}  // namespace beamline::http_service_test
