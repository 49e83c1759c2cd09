// Unary calls, refusals and the end of a server.
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "base/field_error.h"
#include "base/utf8.h"
#include "base/work_batch.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::service_test {
namespace {

using testing::HasSubstr;

TEST_F(ServiceTest, AnswersGenerate) {
  Serve();
  auto answer = std::async(std::launch::async, [&] {
    v1::GenerateRequest request = Request();
    request.set_request_id("mine");
    return client_->Generate(request, kSoon);
  });
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(request.request.model, "writer");  // the only one that generates
  ASSERT_TRUE(request.request.deadline.has_value());
  EXPECT_EQ(request.request.client, "ipv4:127.0.0.1");
  EXPECT_FALSE(request.sink->wants_deltas());
  engine_->Finish(request, TextResult("done"));
  const auto response = answer.get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->sequences(0).text(), "done");
  EXPECT_EQ(response->model(), "writer");
  EXPECT_EQ(response->request_id(), "mine");
}

// As the threads of replicas do.
TEST_F(ServiceTest, AThreadThatIsIdleSendsSmallAnswersItself) {
  Serve();
  const auto generate = [this] { return client_->Generate(Request(), kSoon); };
  const std::vector<absl::StatusOr<GenerateResult>> small = {TextResult("done"),
                                                             absl::InternalError("broken")};
  WorkBatch batch;
  for (size_t i = 0; i < small.size(); ++i) {
    auto answer = std::async(std::launch::async, generate);
    engine_->Finish(engine_->WaitForRequest(i), small[i]);
    EXPECT_EQ(batch.num_brief(), 1u);
    EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    batch.RunWhile([] { return true; });
    EXPECT_EQ(answer.get().status().code(), small[i].status().code());
  }
}

TEST_F(ServiceTest, AnIdleThreadLeavesLargeAnswersToTheWriters) {
  Serve();
  auto answer =
      std::async(std::launch::async, [this] { return client_->Generate(Request(), kSoon); });
  const std::string text(100'000, 'x');
  WorkBatch batch;
  engine_->Finish(engine_->WaitForRequest(0), TextResult(text));
  EXPECT_EQ(batch.num_brief(), 0u);
  batch.HandOver();
  const auto response = answer.get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->sequences(0).text(), text);
}

TEST_F(ServiceTest, TakesTheClientFromTheMetadata) {
  Serve();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  auto answer = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    context.AddMetadata("x-client-id", std::string(300, 'c'));
    v1::GenerateResponse response;
    return stub->Generate(&context, Request(), &response);
  });
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(request.request.client, std::string(256, 'c'));
  engine_->Finish(request, TextResult("done"));
  EXPECT_TRUE(answer.get().ok());
}

TEST_F(ServiceTest, ClientsTimeoutsBeyondTheClockAreNone) {
  Serve();
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a");
  const std::vector<v1::EncodeRequest> many(2, request);
  for (const std::chrono::milliseconds timeout :
       {std::chrono::milliseconds(std::chrono::years(300)),
        std::chrono::milliseconds(std::chrono::years(600)), std::chrono::milliseconds::max()}) {
    const auto response = client_->Encode(request, {.timeout = timeout});
    EXPECT_TRUE(response.ok()) << response.status();
    for (const auto& answer : client_->EncodeMany(many, {.timeout = timeout})) {
      EXPECT_TRUE(answer.ok()) << answer.status();
    }
  }
}

TEST_F(ServiceTest, AnswersThatComeBeforeTheHandle) {
  Serve();
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a");
  request.add_inputs()->set_text("b");
  for (int i = 0; i < 50; ++i) {
    const auto response = client_->Encode(request, kSoon);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->embeddings(1).values(0), 1.0f);
  }
}

TEST_F(ServiceTest, ClientsDeadlineCancels) {
  Serve();
  const auto response = client_->Generate(Request(), {.timeout = std::chrono::seconds(1)});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(engine_->WaitForRequest(0), absl::CancelledError("cancelled"));
}

TEST_F(ServiceTest, UnaryCutByItsDeadlineIsAnError) {
  Serve();
  auto answer = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  engine_->Finish(engine_->WaitForRequest(0), TextResult("half", FinishReason::kDeadline));
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ServiceTest, EngineErrorsNameTheField) {
  Serve();
  engine_->Refuse(FieldError("limits.max_new_tokens", "0", "1 to 9"));
  auto response = client_->Generate(Request(), kSoon);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(InvalidField(response.status()), "limits.max_new_tokens");
  engine_->Refuse(absl::ResourceExhaustedError("full"));
  response = client_->Generate(Request(), kSoon);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted);
  // Errors that come later, from tokenizing, name theirs too.
  engine_->Refuse(absl::OkStatus());
  auto answer = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  engine_->Finish(engine_->WaitForRequest(0),
                  FieldError("prompt", "900 tokens long", "at most 512"));
  EXPECT_EQ(InvalidField(answer.get().status()), "prompt");
}

TEST_F(ServiceTest, RefusesMoreThanItMayTake) {
  ServerConfig config;
  config.max_concurrent_requests = 1;
  Serve(config);
  auto first = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  const FakeRequest request = engine_->WaitForRequest(0);
  const auto refused = client_->Generate(Request(), kSoon);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  engine_->Finish(request, TextResult("ok"));
  EXPECT_TRUE(first.get().ok());
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("a");
  absl::Status status;  // the place is free once the first call is done
  for (int i = 0; i < 2000; ++i) {
    status = client_->Encode(encode, kSoon).status();
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status;
}

// One client's requests to models that generate take no other client's call its place.
TEST_F(ServiceTest, OneClientsRequestsLeaveRoomForOthers) {
  constexpr int kPlaces = 32;
  ServerConfig config;
  config.max_concurrent_requests = kPlaces;
  Serve(config);
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  const auto name = [](grpc::ClientContext& context, const char* client) {
    context.AddMetadata("x-client-id", client);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  };
  std::atomic<int> refused = 0;
  std::vector<std::thread> greedy;
  for (int i = 0; i < kPlaces + 8; ++i) {
    greedy.emplace_back([&] {
      grpc::ClientContext context;
      name(context, "greedy");
      v1::GenerateResponse response;
      const grpc::Status status = stub->Generate(&context, Request(), &response);
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) ++refused;
    });
  }
  for (int i = 0; i < 2000 && refused + static_cast<int>(engine_->num_requests()) < kPlaces + 8;
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(engine_->num_requests(), kPlaces - kPlaces / 16);
  for (const char* client : {"one", "another"}) {
    grpc::ClientContext context;
    name(context, client);
    v1::EncodeRequest request;
    request.add_inputs()->set_text("a");
    v1::EncodeResponse response;
    const grpc::Status status = stub->Encode(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  for (size_t i = 0, count = engine_->num_requests(); i < count; ++i) {
    engine_->Finish(engine_->WaitForRequest(i), TextResult("ok"));
  }
  for (std::thread& thread : greedy) thread.join();
  EXPECT_EQ(refused, 8 + kPlaces / 16);
}

TEST_F(ServiceTest, RefusalsAreCountedByTheirReasons) {
  constexpr char kRejected[] = "beamline_rejected_total";
  Serve();
  engine_->Refuse(absl::ResourceExhaustedError("9 requests wait for model 'writer' already"));
  EXPECT_FALSE(client_->Generate(Request(), kSoon).ok());
  const auto ignore = [](const v1::GenerateStreamResponse&) { return true; };
  EXPECT_FALSE(client_->GenerateStream(Request(), ignore, kSoon).ok());
  const std::vector<v1::GenerateRequest> many(3, Request());
  client_->GenerateMany(many, kSoon);
  EXPECT_EQ(Counter(kRejected, "reason=queue_full"), 5);
  engine_->Refuse(absl::UnavailableError("model 'writer' cannot answer: it broke"));
  EXPECT_FALSE(client_->Generate(Request(), kSoon).ok());
  engine_->Refuse(FieldError("priority", "101", "-100 to 100"));
  EXPECT_FALSE(client_->Generate(Request(), kSoon).ok());  // no refusal
  EXPECT_EQ(Counter(kRejected, "reason=device_fault"), 1);
  EXPECT_EQ(Counter(kRejected, "reason=overload"), 0);
}

// What the engine refuses at once, and what it answers so when it has read the request.
TEST_F(ServiceTest, RefusalsOfTheQueueAreCountedOnceWheneverTheyCome) {
  constexpr char kRejected[] = "beamline_rejected_total";
  Serve();
  absl::Status refusal = absl::ResourceExhaustedError("too late");
  refusal.SetPayload(kRefusalPayload, absl::Cord(std::string(kRefusedByDeadline)));
  engine_->Refuse(refusal);
  EXPECT_FALSE(client_->Generate(Request(), kSoon).ok());
  EXPECT_EQ(Counter(kRejected, "reason=deadline"), 1);
  engine_->Refuse(absl::OkStatus());
  refusal.SetPayload(kRefusalPayload, absl::Cord(std::string(kRefusedByTokens)));
  auto call = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  engine_->Finish(engine_->WaitForRequest(0), refusal);
  EXPECT_FALSE(call.get().ok());
  EXPECT_EQ(Counter(kRejected, "reason=queued_tokens"), 1);
  EXPECT_EQ(Counter(kRejected, "reason=deadline"), 1);
  EXPECT_EQ(Counter(kRejected, "reason=queue_full"), 0);
}

TEST_F(ServiceTest, APriorityIsAtMostTheServers) {
  ServerConfig config;
  config.max_priority = 3;
  Serve(config);
  size_t number = 0;
  for (const auto& [asked, gets] :
       std::vector<std::pair<int, int>>{{100, 3}, {3, 3}, {-100, -100}, {101, 101}}) {
    v1::GenerateRequest request = Request();
    request.set_priority(asked);
    auto call = std::async(std::launch::async, [&] { return client_->Generate(request, kSoon); });
    const FakeRequest seen = engine_->WaitForRequest(number++);
    EXPECT_EQ(seen.request.priority, gets);  // 101 is refused by a true engine
    engine_->Finish(seen, TextResult("ok"));
    EXPECT_TRUE(call.get().ok());
  }
}

TEST_F(ServiceTest, RefusalsForLoadAreCounted) {
  constexpr char kRejected[] = "beamline_rejected_total";
  ServerConfig config;
  config.max_concurrent_requests = 1;
  Serve(config);
  auto first = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_FALSE(client_->Generate(Request(), kSoon).ok());
  EXPECT_EQ(Counter(kRejected, "reason=overload"), 1);
  EXPECT_EQ(Counter(kRejected, "reason=queue_full"), 0);
  engine_->Finish(request, TextResult("ok"));
  EXPECT_TRUE(first.get().ok());
}

TEST_F(ServiceTest, AnswersThatAreNotSentAreNotCountedAsOk) {
  ServerConfig config;
  config.max_send_bytes = 2048;
  Serve(config);
  auto answer = std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(request.request.max_answer_bytes, 2048);
  engine_->Finish(request, TextResult(std::string(4096, 'x')));
  const absl::Status status = answer.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: at most 2048"));
  constexpr char kRequests[] = "beamline_requests_total";
  EXPECT_TRUE(CounterReaches(kRequests, "rpc=Generate model=none code=OUT_OF_RANGE", 1));
  // A client that is gone before its answer.
  const auto late = client_->Generate(Request(), {.timeout = std::chrono::seconds(1)});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(engine_->WaitForRequest(1), TextResult("too late"));
  EXPECT_TRUE(CounterReaches(kRequests, "rpc=Generate model=none code=CANCELLED", 1));
  EXPECT_EQ(Counter(kRequests, "rpc=Generate model=none code=OK"), 0);
}

TEST_F(ServiceTest, ModelNamesAreCutBetweenCharacters) {
  Serve();
  for (int padding = 0; padding < 4; ++padding) {
    std::string name(97 + static_cast<size_t>(padding), 'm');
    for (int i = 0; i < 10; ++i) name += "\U0001F600";
    v1::GenerateRequest request = Request();
    request.set_model(name);
    v1::TokenizeRequest tokenize;
    tokenize.set_model(name);
    for (const absl::Status& status :
         {client_->Generate(request, kSoon).status(), client_->GetModel(name, kSoon).status(),
          client_->Tokenize(tokenize, kSoon).status()}) {
      EXPECT_FALSE(status.ok());
      const std::string message(status.message());
      EXPECT_FALSE(FindInvalidUtf8(message).has_value()) << message;
      EXPECT_THAT(message, HasSubstr("writer"));  // what there is stays in the message
    }
  }
}

TEST_F(ServiceTest, AnswersScore) {
  Serve();
  v1::ScoreRequest request;
  request.set_request_id("mine");
  request.mutable_prompt()->set_text("p");
  for (const char* text : {"a", "b", "c"}) request.add_continuations()->set_text(text);
  request.set_per_token(true);
  auto response = client_->Score(request, kSoon);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->scores_size(), 3);
  EXPECT_EQ(response->scores(2).logprob(), -2.0);
  EXPECT_EQ(response->scores(2).num_tokens(), 1);
  EXPECT_EQ(response->scores(2).tokens(0).id(), 7);
  EXPECT_EQ(response->model(), "writer");
  EXPECT_EQ(response->request_id(), "mine");
  EXPECT_FALSE(response->timing().has_first_token());
  request.set_model("embedder");
  response = client_->Score(request, kSoon);
  EXPECT_EQ(InvalidField(response.status()), "model");
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("cannot score"));
  request.set_model("");
  request.mutable_continuations(1)->clear_text();
  EXPECT_EQ(InvalidField(client_->Score(request, kSoon).status()), "continuations[1]");
}

TEST_F(ServiceTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  Serve();
  EXPECT_TRUE(*client_->Health("", kSoon));
  EXPECT_TRUE(*client_->Health("writer", kSoon));
  EXPECT_EQ(client_->Health("nobody", kSoon).status().code(), absl::StatusCode::kNotFound);
  auto running =
      std::async(std::launch::async, [&] { return client_->Generate(Request(), kSoon); });
  const FakeRequest request = engine_->WaitForRequest(0);
  auto drained =
      std::async(std::launch::async, [&] { return server_->Drain(std::chrono::seconds(20)); });
  ASSERT_TRUE(engine_->WaitForDrain());
  EXPECT_FALSE(*client_->Health("", kSoon));
  EXPECT_FALSE(*client_->Health("writer", kSoon));
  EXPECT_EQ(client_->Generate(Request(), kSoon).status().code(), absl::StatusCode::kUnavailable);
  engine_->Finish(request, TextResult("finished"));
  const auto response = running.get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->sequences(0).text(), "finished");
  EXPECT_TRUE(drained.get());
  EXPECT_EQ(Counter("beamline_rejected_total", "reason=draining"), 1);
}

TEST_F(ServiceTest, ABrokenDeviceIsToldByHealth) {
  Serve();
  engine_->Break("writer", absl::UnavailableError("model 'writer' cannot answer: it broke"));
  EXPECT_EQ(faults_, 1);
  EXPECT_FALSE(*client_->Health("writer", kSoon));
  EXPECT_FALSE(*client_->Health("", kSoon));
  EXPECT_TRUE(*client_->Health("embedder", kSoon));
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a");
  EXPECT_TRUE(client_->Encode(request, kSoon).ok());
}

TEST_F(ServiceTest, SecondServerOnThePortIsAnError) {
  Serve();
  ServerConfig config;
  config.listen = server_->address();
  config.metrics_listen = config.http_listen = "off";
  const auto second = Server::Start(config, metrics_, std::make_unique<FakeEngine>());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address()));
}

}  // namespace
}  // namespace beamline::service_test
