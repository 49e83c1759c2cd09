// Calls that go on by themselves: what their functions hear, how often, where and until when.
// Long because all of it needs a server that holds calls and functions that note what they heard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/client/failing_server.h"
#include "tests/client/held_server.h"
#include "tests/client/recording_server.h"

namespace beamline::async_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SizeIs;

constexpr seconds kPatience{30};

grpc::Status Full(milliseconds wait) {
  return OnTheWire(
      Busy(wait.count() / 1000, static_cast<int32_t>(wait.count() % 1000 * 1'000'000)));
}

v1::GenerateRequest Prompt(const std::string& text, const std::string& model = "") {
  v1::GenerateRequest request;
  request.set_model(model);
  request.mutable_prompt()->set_text(text);
  return request;
}

// What the function of one call heard.
template <typename Response>
class Heard {
 public:
  Client::OnDone<Response> function() {
    return [state = state_](absl::StatusOr<Response> answer) {
      if (++state->times > 1) ADD_FAILURE() << "heard again: " << answer.status();
      if (state->times == 1) state->answer.set_value(std::move(answer));
    };
  }
  absl::StatusOr<Response> Wait() {
    if (future_.wait_for(kPatience) == std::future_status::ready) return future_.get();
    return absl::InternalError("the function has not heard");
  }
  bool has_heard() const { return state_->times > 0; }

 private:
  struct State {
    std::promise<absl::StatusOr<Response>> answer;
    std::atomic<int> times = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::future<absl::StatusOr<Response>> future_ = state_->answer.get_future();
};
using HeardText = Heard<v1::GenerateResponse>;

size_t NumThreads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

class AsyncTest : public testing::Test {
 protected:
  static RetryPolicy Patient() {
    return {.max_attempts = 5, .initial_backoff = milliseconds(2), .max_backoff = milliseconds(8)};
  }
  AsyncCall Begin(HeardText& heard, const CallOptions& options = {}) {
    return client_->GenerateAsync(Prompt("p"), heard.function(), options);
  }

  HeldServer server_;
  std::unique_ptr<Client> client_ =
      std::make_unique<Client>(ClientOptions{.address = server_.address(), .retry = Patient()});
};

TEST(AsyncCalls, EveryKindHasItsAnswer) {
  const RecordingServer server;
  Client client({.address = server.address()});
  HeardText generated;
  client.GenerateAsync(Prompt("p"), generated.function());
  EXPECT_EQ(generated.Wait()->sequences(0).text(), "<p>");
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("abc");
  Heard<v1::EncodeResponse> encoded;
  client.EncodeAsync(encode, encoded.function());
  EXPECT_EQ(encoded.Wait()->embeddings(0).num_tokens(), 3);
  v1::ScoreRequest score;
  score.add_continuations()->set_text("c");
  Heard<v1::ScoreResponse> scored;
  client.ScoreAsync(score, scored.function());
  EXPECT_EQ(scored.Wait()->scores(0).logprob(), -3.0);
  v1::ClassifyRequest classify;
  classify.add_inputs()->set_text("c");
  Heard<v1::ClassifyResponse> classified;
  client.ClassifyAsync(classify, classified.function());
  EXPECT_EQ(classified.Wait()->classifications(0).classes(0).label(), "up");
  v1::RerankRequest rerank;
  rerank.add_documents("c");
  Heard<v1::RerankResponse> reranked;
  client.RerankAsync(rerank, reranked.function());
  EXPECT_EQ(reranked.Wait()->documents(0).num_tokens(), 4);
  v1::ClassifyTokensRequest tokens;
  tokens.add_inputs("cd");
  tokens.set_aggregation(v1::AGGREGATION_MAX);
  Heard<v1::ClassifyTokensResponse> entities;
  client.ClassifyTokensAsync(tokens, entities.function());
  EXPECT_EQ(entities.Wait()->classifications(0).entities(0).text(), "cd");
  v1::FillMaskRequest masked;
  masked.add_inputs("c");
  Heard<v1::FillMaskResponse> filled;
  client.FillMaskAsync(masked, filled.function());
  EXPECT_EQ(filled.Wait()->texts(0).masks(0).fills(0).text(), "fox");
  v1::TokenizeRequest tokenize;
  tokenize.set_text("ab");
  Heard<v1::TokenizeResponse> tokenized;
  client.TokenizeAsync(tokenize, tokenized.function());
  EXPECT_EQ(tokenized.Wait()->tokens_size(), 3);
  v1::DetokenizeRequest detokenize;
  detokenize.add_ids(5);
  Heard<v1::DetokenizeResponse> detokenized;
  client.DetokenizeAsync(detokenize, detokenized.function());
  EXPECT_EQ(detokenized.Wait()->text(), "(5)");
}

// Of a process whose last connection it is: the end of that waits for gRPC's threads.
TEST(AsyncCalls, AConnectionEndsWhileTheFunctionReturns) {
  const RecordingServer server;
  for (int i = 0; i < 200; ++i) {
    HeardText heard;
    Client client({.address = server.address()});
    client.GenerateAsync(Prompt("p"), heard.function());
    ASSERT_TRUE(heard.Wait().ok());
  }
}

TEST(AsyncCalls, AFunctionEndsTheLastConnection) {
  const RecordingServer server;
  for (int i = 0; i < 50; ++i) {
    auto client = std::make_unique<Client>(ClientOptions{.address = server.address()});
    HeardText other;
    const auto is_destroyed = std::make_shared<std::promise<void>>();
    Client& begins = *client;
    begins.GenerateAsync(Prompt("p"), [&, is_destroyed](const auto& answer) {
      EXPECT_TRUE(answer.ok()) << answer.status();
      begins.GenerateAsync(Prompt("other"), other.function());
      client.reset();
      is_destroyed->set_value();
    });
    ASSERT_EQ(is_destroyed->get_future().wait_for(kPatience), std::future_status::ready);
    const absl::Status status = other.Wait().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
}

TEST_F(AsyncTest, ThousandsOfCallsNeedAFewThreads) {
  constexpr size_t kNumCalls = 2000;
  const size_t before = NumThreads();
  std::vector<HeardText> heard(kNumCalls);
  for (size_t i = 0; i < kNumCalls; ++i) {
    client_->GenerateAsync(Prompt(std::to_string(i)), heard[i].function());
  }
  ASSERT_TRUE(server_.WaitForHeld(kNumCalls));
  EXPECT_LT(NumThreads(), before + kNumCalls / 4);  // gRPC's own, by the processors
  server_.AnswerAll();
  for (size_t i = 0; i < kNumCalls; ++i) {
    const auto answer = heard[i].Wait();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->sequences(0).text(), std::to_string(i));
  }
}

TEST_F(AsyncTest, FunctionsRunElsewhereAndAreDestroyed) {
  server_.AnswerAtOnce();
  auto held = std::make_shared<std::promise<std::thread::id>>();
  const std::weak_ptr<void> watched = held;
  auto future = held->get_future();
  client_->GenerateAsync(Prompt("p"), [held = std::move(held)](const auto&) {
    held->set_value(std::this_thread::get_id());
  });
  EXPECT_NE(future.get(), std::this_thread::get_id());
  client_.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(AsyncTest, AFailedCallIsMadeAgain) {
  server_.AnswerAtOnce();
  server_.FailNext({Gone(), Full(milliseconds(60)), Gone()});
  HeardText heard;
  Begin(heard);
  EXPECT_TRUE(heard.Wait().ok());
  const auto calls = server_.calls();
  ASSERT_THAT(calls, SizeIs(4));
  EXPECT_GE(calls[1] - calls[0], milliseconds(2));
  EXPECT_GE(calls[2] - calls[1], milliseconds(60));
}

TEST_F(AsyncTest, NotForEverAndNotAfterOtherErrors) {
  server_.AnswerAtOnce();
  server_.FailNext(std::deque<grpc::Status>(9, Gone()));
  HeardText gone;
  Begin(gone);
  EXPECT_TRUE(absl::IsUnavailable(gone.Wait().status()));
  EXPECT_THAT(server_.calls(), SizeIs(5));
  server_.FailNext({{grpc::StatusCode::INVALID_ARGUMENT, "no"}});
  HeardText wrong;
  Begin(wrong);
  EXPECT_EQ(wrong.Wait().status(), absl::InvalidArgumentError("no"));
  EXPECT_THAT(server_.calls(), SizeIs(6));
}

TEST_F(AsyncTest, TheDeadlineIsOfAllAttempts) {
  const auto begin = std::chrono::steady_clock::now();
  server_.FailNext({Full(milliseconds(150))});
  HeardText late;
  Begin(late, {.timeout = milliseconds(1500)});  // the second attempt is held
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Wait().status()));
  EXPECT_THAT(server_.calls(), SizeIs(2));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(1499));
  // A wait that it would cut is not begun.
  server_.FailNext({Full(seconds(50))});
  HeardText full;
  Begin(full, {.timeout = seconds(40)});
  EXPECT_TRUE(absl::IsResourceExhausted(full.Wait().status()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(35));
}

TEST_F(AsyncTest, ACallIsCancelledAtAnyTime) {
  AsyncCall().Cancel();
  HeardText at_once;
  Begin(at_once).Cancel();
  EXPECT_TRUE(absl::IsCancelled(at_once.Wait().status()));

  HeardText running;
  const AsyncCall call = Begin(running);
  ASSERT_TRUE(server_.WaitForHeld(1));
  call.Cancel();
  EXPECT_TRUE(absl::IsCancelled(running.Wait().status()));
  EXPECT_TRUE(server_.WaitForCancelled(1));

  server_.FailNext({Full(seconds(50))});
  HeardText between;
  const size_t num_calls = server_.calls().size();
  const AsyncCall waits = Begin(between);
  while (server_.calls().size() == num_calls) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(20));  // likely in its wait, else it is cancelled before
  waits.Cancel();
  EXPECT_TRUE(absl::IsCancelled(between.Wait().status()));
  EXPECT_EQ(server_.calls().size(), num_calls + 1);

  server_.AnswerAtOnce();
  HeardText answered;
  const AsyncCall over = Begin(answered);
  EXPECT_TRUE(answered.Wait().ok());
  over.Cancel();
  over.Cancel();
}

TEST_F(AsyncTest, EachHearsOnceWhereCancellingRacesWithRetriesAndAnswers) {
  server_.AnswerAtOnce();
  server_.FailNext(std::deque<grpc::Status>(300, Full(milliseconds(1))));
  std::vector<HeardText> heard(300);
  std::vector<AsyncCall> calls;
  for (HeardText& one : heard) calls.push_back(Begin(one));
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 3; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = first; i < calls.size(); i += 2) calls[i].Cancel();  // most of them by two
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (HeardText& one : heard) {
    const absl::Status status = one.Wait().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) || absl::IsResourceExhausted(status))
        << status;
  }
}

TEST_F(AsyncTest, AFunctionBeginsTheNextCall) {
  server_.AnswerAtOnce();
  HeardText last;
  std::function<void(int)> next = [&](int num_left) {
    if (num_left == 0) {
      client_->GenerateAsync(Prompt("last"), last.function());
      return;
    }
    client_->GenerateAsync(Prompt("p"), [&next, num_left](const auto& answer) {
      EXPECT_TRUE(answer.ok()) << answer.status();
      next(num_left - 1);
    });
  };
  next(300);
  EXPECT_EQ(last.Wait()->sequences(0).text(), "last");
}

// What a stream's functions heard; the texts of its messages one after the other.
struct HeardStream {
  Client::OnMessage Reader(size_t most = 1 << 30) {
    return [this, most](const v1::GenerateStreamResponse& message) {
      EXPECT_FALSE(is_reading.exchange(true)) << "two messages at once";
      EXPECT_FALSE(end.has_heard());
      const std::lock_guard lock(mutex);
      for (const auto& delta : message.deltas()) text += delta.text();
      is_reading = false;
      return text.size() < most;
    };
  }
  std::string Text() {
    const std::lock_guard lock(mutex);
    return text;
  }

  Heard<v1::StreamEnd> end;
  std::atomic<bool> is_reading = false;
  std::mutex mutex;
  std::string text;
};

TEST_F(AsyncTest, AStreamGivesItsMessagesInOrderThenItsEnd) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  HeardStream heard;
  client_->GenerateStreamAsync(Prompt(text, "m"), heard.Reader(), heard.end.function());
  EXPECT_EQ(heard.end.Wait()->model(), "m");
  EXPECT_EQ(heard.Text(), text);
}

TEST_F(AsyncTest, AStreamIsMadeAgainOnlyBeforeItBegins) {
  server_.FailNext({Gone(), Full(milliseconds(1))});
  HeardStream heard;
  client_->GenerateStreamAsync(Prompt("abc"), heard.Reader(), heard.end.function());
  EXPECT_TRUE(heard.end.Wait().ok());
  EXPECT_EQ(heard.Text(), "abc");
  EXPECT_THAT(server_.calls(), SizeIs(3));
  HeardStream broken;
  client_->GenerateStreamAsync(Prompt("abc", "breaks"), broken.Reader(), broken.end.function());
  EXPECT_TRUE(absl::IsUnavailable(broken.end.Wait().status()));
  EXPECT_EQ(broken.Text(), "a");
  EXPECT_THAT(server_.calls(), SizeIs(4));
  HeardStream lost;
  client_->GenerateStreamAsync(Prompt("abc", "loses"), lost.Reader(), lost.end.function());
  EXPECT_TRUE(absl::IsDataLoss(lost.end.Wait().status()));
}

TEST_F(AsyncTest, AReaderEndsItsStream) {
  HeardStream heard;
  client_->GenerateStreamAsync(Prompt("abc", "endless"), heard.Reader(7), heard.end.function());
  EXPECT_TRUE(absl::IsCancelled(heard.end.Wait().status()));
  EXPECT_EQ(heard.Text(), "abcabca");
  EXPECT_TRUE(server_.WaitForCancelled(1));
  HeardStream other;
  const AsyncCall call =
      client_->GenerateStreamAsync(Prompt("abc", "endless"), other.Reader(), other.end.function());
  while (other.Text().size() < 10) std::this_thread::sleep_for(milliseconds(1));
  call.Cancel();
  EXPECT_TRUE(absl::IsCancelled(other.end.Wait().status()));
  EXPECT_TRUE(server_.WaitForCancelled(2));
}

TEST_F(AsyncTest, DestroyedAClientCancelsAndWaits) {
  server_.FailNext({Full(seconds(50))});
  HeardText between;
  Begin(between);
  while (server_.calls().empty()) std::this_thread::sleep_for(milliseconds(1));
  std::vector<HeardText> heard(20);
  for (HeardText& one : heard) Begin(one);
  HeardStream stream;
  client_->GenerateStreamAsync(Prompt("abc", "endless"), stream.Reader(), stream.end.function());
  ASSERT_TRUE(server_.WaitForHeld(heard.size()));
  std::atomic<bool> is_over = false;
  client_->GenerateAsync(Prompt("p"), [&is_over](const auto& answer) {
    EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
    std::this_thread::sleep_for(milliseconds(50));
    is_over = true;
  });
  client_.reset();
  EXPECT_TRUE(is_over) << "it waits for functions that run";
  EXPECT_TRUE(between.has_heard());
  EXPECT_TRUE(absl::IsCancelled(between.Wait().status()));
  for (HeardText& one : heard) {
    ASSERT_TRUE(one.has_heard());
    EXPECT_TRUE(absl::IsCancelled(one.Wait().status()));
  }
  EXPECT_TRUE(stream.end.has_heard());
}

TEST_F(AsyncTest, WhatAFunctionBeginsMeanwhileIsCancelledToo) {
  HeardText next;
  Client& client = *client_;  // which the destructor below keeps until the functions have run
  client.GenerateAsync(Prompt("p"), [&](const auto& answer) {
    EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
    client.GenerateAsync(Prompt("next"), next.function());
  });
  ASSERT_TRUE(server_.WaitForHeld(1));
  client_.reset();
  EXPECT_TRUE(next.has_heard());
  EXPECT_TRUE(absl::IsCancelled(next.Wait().status()));
}

TEST_F(AsyncTest, AFunctionMayDestroyTheClient) {
  std::vector<HeardText> others(5);
  for (HeardText& one : others) Begin(one);
  ASSERT_TRUE(server_.WaitForHeld(others.size()));
  server_.AnswerAtOnce();
  const auto is_destroyed = std::make_shared<std::promise<void>>();
  client_->GenerateAsync(Prompt("p"), [&, is_destroyed](const auto& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    client_.reset();
    is_destroyed->set_value();
  });
  ASSERT_EQ(is_destroyed->get_future().wait_for(kPatience), std::future_status::ready);
  for (HeardText& one : others) EXPECT_TRUE(absl::IsCancelled(one.Wait().status()));
}

}  // namespace
}  // namespace beamline::async_test
