// GenerateStream: order, slow readers, cancellation, deadlines.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "base/work_batch.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::stream_test {
namespace {

GenerateDelta TextDelta(const std::string& text, int32_t id) {
  return {.sequence = 0, .ids = {id}, .text = text};
}

TEST_F(ServiceTest, StreamDeliversEveryDeltaInOrder) {
  Serve();
  std::string received;
  std::vector<int32_t> ids;
  auto end = std::async(std::launch::async, [&] {
    return client_->GenerateStream(
        Request(),
        [&](const v1::GenerateStreamResponse& message) {
          for (const auto& delta : message.deltas()) {
            received += delta.text();
            ids.insert(ids.end(), delta.ids().begin(), delta.ids().end());
          }
          return true;
        },
        kSoon);
  });
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_TRUE(request.sink->wants_deltas());
  std::string sent;
  std::vector<int32_t> sent_ids;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = std::to_string(i) + " ";
    sent += text;
    sent_ids.push_back(i);
    request.sink->OnDelta(TextDelta(text, i));
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine_->Finish(request, TextResult(sent));
  const auto result = end.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(received, sent);
  EXPECT_EQ(ids, sent_ids);
  EXPECT_EQ(result->sequences(0).finish_reason(), v1::FINISH_REASON_EOS);
  EXPECT_EQ(result->usage().generated_tokens(), 1);
}

// As a replica's thread has them: the tokens of a step together, to a writer that sends for many.
TEST_F(ServiceTest, StreamsWrittenTogetherKeepToThemselves) {
  Serve();
  constexpr int kStreams = 80, kSteps = 100;
  std::vector<std::future<std::vector<int32_t>>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::async(std::launch::async, [&] {
      std::vector<int32_t> ids;
      const auto result = client_->GenerateStream(
          Request(),
          [&](const v1::GenerateStreamResponse& message) {
            for (const auto& delta : message.deltas()) {
              ids.insert(ids.end(), delta.ids().begin(), delta.ids().end());
            }
            return true;
          },
          kSoon);
      EXPECT_TRUE(result.ok()) << result.status();
      return ids;
    }));
  }
  std::vector<FakeRequest> requests;
  for (int i = 0; i < kStreams; ++i) requests.push_back(engine_->WaitForRequest(i));
  {
    WorkBatch posted;
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < kStreams; ++i) {
        requests[i].sink->OnDelta(TextDelta("a", i * kSteps + step));
      }
      posted.HandOver();
    }
    for (const FakeRequest& request : requests) engine_->Finish(request, TextResult(""));
  }
  std::vector<int32_t> starts;
  for (auto& client : clients) {
    const std::vector<int32_t> ids = client.get();
    ASSERT_EQ(ids.size(), kSteps);
    for (int step = 0; step < kSteps; ++step) EXPECT_EQ(ids[step], ids[0] + step);
    starts.push_back(ids[0]);
  }
  std::ranges::sort(starts);
  for (int i = 0; i < kStreams; ++i) EXPECT_EQ(starts[i], i * kSteps);
}

TEST_F(ServiceTest, SlowReaderBlocksNobodyAndLosesNothing) {
  Serve();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto reader = stub->GenerateStream(&context, Request());
  const FakeRequest request = engine_->WaitForRequest(0);
  // More than every window and buffer between the two ends holds.
  const std::string piece(10000, 'x');
  const auto started = Clock::now();
  for (int i = 0; i < 3000; ++i) request.sink->OnDelta(TextDelta(piece, i));
  engine_->Finish(request, TextResult(""));
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(10));
  // Others are served while nobody reads.
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("a");
  EXPECT_TRUE(client_->Encode(encode, kSoon).ok());

  size_t bytes = 0;
  int ids = 0;
  bool ended = false;
  v1::GenerateStreamResponse message;
  while (reader->Read(&message)) {
    for (const auto& delta : message.deltas()) {
      bytes += delta.text().size();
      ids += delta.ids_size();
    }
    ended = message.has_end();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(ended);
  EXPECT_EQ(bytes, piece.size() * 3000);
  EXPECT_EQ(ids, 3000);
}

TEST_F(ServiceTest, ClientsCancellationReachesTheEngine) {
  Serve();
  auto end = std::async(std::launch::async, [&] {
    return client_->GenerateStream(
        Request(), [](const v1::GenerateStreamResponse&) { return false; }, kSoon);
  });
  const FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta(TextDelta("a", 1));
  EXPECT_EQ(end.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(engine_->WaitForCancels(1));
  // What the engine still says must find a living call, and end it.
  for (int i = 0; i < 100; ++i) request.sink->OnDelta(TextDelta("b", 2));
  engine_->Finish(request, TextResult("ab", FinishReason::kCancelled));
}

TEST_F(ServiceTest, DisconnectReachesTheEngine) {
  Serve();
  {
    const auto stub = v1::Inference::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto reader = stub->GenerateStream(&context, Request());
    engine_->WaitForRequest(0);
    context.TryCancel();
    v1::GenerateStreamResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_FALSE(reader->Finish().ok());
  }
  EXPECT_TRUE(engine_->WaitForCancels(1));
  engine_->Finish(engine_->WaitForRequest(0), absl::CancelledError("cancelled"));
}

TEST_F(ServiceTest, StreamCutByItsDeadlineEndsWithWhatThereIs) {
  Serve();
  auto end = std::async(std::launch::async, [&] {
    return client_->GenerateStream(
        Request(), [](const v1::GenerateStreamResponse&) { return true; }, kSoon);
  });
  const FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta(TextDelta("half", 1));
  engine_->Finish(request, TextResult("half", FinishReason::kDeadline));
  const auto result = end.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->sequences(0).finish_reason(), v1::FINISH_REASON_DEADLINE);
}

TEST_F(ServiceTest, ManyStreamsCancelledAtAnyMoment) {
  Serve();
  constexpr int kStreams = 60;
  std::atomic<int> over{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back([&, i] {
      int messages = 0;
      const auto end = client_->GenerateStream(
          Request(),
          [&](const v1::GenerateStreamResponse&) { return i % 2 == 0 || ++messages < i % 7; },
          kSoon);
      EXPECT_TRUE(end.ok() || end.status().code() == absl::StatusCode::kCancelled) << end.status();
      ++over;
    });
  }
  std::vector<std::thread> engines;  // each plays the engine's thread for some of the requests
  for (int t = 0; t < 3; ++t) {
    engines.emplace_back([&, t] {
      for (int i = t; i < kStreams; i += 3) {
        const FakeRequest request = engine_->WaitForRequest(static_cast<size_t>(i));
        for (int d = 0; d < 50; ++d) request.sink->OnDelta(TextDelta("x", d));
        engine_->Finish(request, TextResult("x"));
      }
    });
  }
  for (std::thread& thread : engines) thread.join();
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(over, kStreams);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
}

TEST_F(ServiceTest, StreamOfTooLargeAMessageEndsWithTheReason) {
  ServerConfig config;
  config.max_send_bytes = 2048;
  Serve(config);
  const auto ignore = [](const v1::GenerateStreamResponse&) { return true; };
  const auto stream = [&] { return client_->GenerateStream(Request(), ignore, kSoon).status(); };
  // A delta that is too large by itself; what follows is dropped.
  auto end = std::async(std::launch::async, stream);
  FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta(TextDelta(std::string(4096, 'x'), 1));
  EXPECT_TRUE(engine_->WaitForCancels(1));
  request.sink->OnDelta(TextDelta("later", 2));
  engine_->Finish(request, TextResult("", FinishReason::kCancelled));
  EXPECT_EQ(end.get().code(), absl::StatusCode::kOutOfRange);
  // The last message.
  end = std::async(std::launch::async, stream);
  request = engine_->WaitForRequest(1);
  GenerateResult result = TextResult("");
  result.prompt_logprobs.resize(1000, {.chosen = {7, -1.0f}, .top = {}});
  engine_->Finish(request, std::move(result));
  EXPECT_EQ(end.get().code(), absl::StatusCode::kOutOfRange);
  // Many small deltas go in messages that fit.
  end = std::async(std::launch::async, stream);
  request = engine_->WaitForRequest(2);
  for (int i = 0; i < 2000; ++i) request.sink->OnDelta(TextDelta("word ", i));
  engine_->Finish(request, TextResult(""));
  EXPECT_TRUE(end.get().ok());
  // The last deltas and the end, which fit one by one.
  end = std::async(std::launch::async, stream);
  request = engine_->WaitForRequest(3);
  request.sink->OnDelta(TextDelta(std::string(1500, 'x'), 1));
  result = TextResult("");
  result.prompt_logprobs.resize(100, {.chosen = {7, -1.0f}, .top = {}});
  engine_->Finish(request, std::move(result));
  EXPECT_TRUE(end.get().ok());
  constexpr char kRequests[] = "beamline_requests_total";
  EXPECT_TRUE(CounterReaches(kRequests, "rpc=GenerateStream model=none code=OUT_OF_RANGE", 2));
  EXPECT_TRUE(CounterReaches(kRequests, "rpc=GenerateStream model=none code=OK", 2));
}

}  // namespace
}  // namespace beamline::stream_test
