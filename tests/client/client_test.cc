// The C++ client library: every call, its deadline, its errors with their details.
#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/recording_server.h"

namespace beamline::client_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SizeIs;

class ClientTest : public testing::Test {
 protected:
  static v1::GenerateRequest Generate(const std::string& prompt = "p") {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text(prompt);
    return request;
  }
  static v1::EncodeRequest Encode(const std::string& text = "t") {
    v1::EncodeRequest request;
    request.add_inputs()->set_text(text);
    return request;
  }

  RecordingServer server_;
  Client client_{ClientOptions{.address = server_.address()}};
};

TEST_F(ClientTest, EveryCallHasItsAnswer) {
  EXPECT_EQ(client_.Generate(Generate())->sequences(0).text(), "<p>");
  EXPECT_EQ(client_.Encode(Encode("abc"))->embeddings(0).num_tokens(), 3);
  v1::ScoreRequest score;
  score.add_continuations()->set_text("c");
  EXPECT_EQ(client_.Score(score)->scores(0).logprob(), -3.0);
  v1::ClassifyRequest classify;
  classify.add_inputs()->set_text("c");
  EXPECT_EQ(client_.Classify(classify)->classifications(0).classes(1).label(), "down");
  v1::RerankRequest rerank;
  rerank.add_documents("c");
  rerank.add_documents("d");
  EXPECT_EQ(client_.Rerank(rerank)->documents(0).index(), 1);
  v1::ClassifyTokensRequest tokens;
  tokens.add_inputs("c");
  EXPECT_EQ(client_.ClassifyTokens(tokens)->classifications(0).tokens(0).piece(), "c");
  v1::FillMaskRequest masked;
  masked.add_inputs("c");
  EXPECT_EQ(client_.FillMask(masked)->texts(0).masks(0).fills(0).sequence(), "c fox");
  v1::TokenizeRequest tokenize;
  tokenize.set_text("ab");
  EXPECT_EQ(client_.Tokenize(tokenize)->tokens_size(), 3);
  v1::DetokenizeRequest detokenize;
  detokenize.add_ids(5);
  EXPECT_EQ(client_.Detokenize(detokenize)->text(), "(5)");
  EXPECT_EQ(client_.ListModels()->models(0).name(), "writer");
  EXPECT_EQ(client_.GetModel("embedder")->task(), v1::TASK_ENCODE);
  EXPECT_TRUE(*client_.Health());
  EXPECT_FALSE(*client_.Health("broken"));
}

TEST_F(ClientTest, AStreamGivesItsMessagesAndItsEnd) {
  std::string text;
  const auto end = client_.GenerateStream(Generate(), [&](const auto& message) {
    for (const auto& delta : message.deltas()) text += delta.text();
    return true;
  });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(text, "<p>");
  EXPECT_EQ(end->usage().generated_tokens(), 3);
}

TEST_F(ClientTest, AReaderThatHasEnoughCancelsTheStream) {
  server_.Hang();
  int num_messages = 0;
  const auto end = client_.GenerateStream(Generate(), [&](const auto&) {
    ++num_messages;
    return false;
  });
  EXPECT_EQ(end.status(), absl::CancelledError("cancelled by the caller"));
  EXPECT_EQ(num_messages, 1);
  for (int i = 0; i < 1000 && server_.num_cancelled() == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(server_.num_cancelled(), 1);
}

TEST_F(ClientTest, ADeadlineEndsEveryKindOfCall) {
  server_.Hang();
  const CallOptions soon = {.timeout = milliseconds(100)};
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_.Generate(Generate(), soon).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_
                                           .GenerateStream(
                                               Generate(), [](const auto&) { return true; }, soon)
                                           .status()));
  const std::vector<v1::GenerateRequest> generates(2, Generate());
  const auto generated = client_.GenerateMany(generates, soon);
  ASSERT_THAT(generated, SizeIs(2));
  for (const auto& answer : generated) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  }
  const std::vector<v1::EncodeRequest> encodes(2, Encode());
  for (const auto& answer : client_.EncodeMany(encodes, soon)) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
  }
}

TEST_F(ClientTest, NoTimeoutAndAnAbsurdOneAreNoDeadline) {
  for (const auto timeout : {milliseconds(0), kLongestTimeout + milliseconds(1)}) {
    EXPECT_TRUE(client_.Generate(Generate(), {.timeout = timeout}).ok());
    EXPECT_GT(server_.calls().back().deadline,
              std::chrono::system_clock::now() + std::chrono::years(100));
  }
  EXPECT_TRUE(client_.Generate(Generate(), {.timeout = seconds(20)}).ok());
  EXPECT_LT(server_.calls().back().deadline, std::chrono::system_clock::now() + seconds(21));
}

TEST_F(ClientTest, ManyHaveTheirAnswersInTheirPlacesAndTheirIdsBack) {
  server_.AnswerBackwards();
  std::vector<v1::GenerateRequest> requests = {Generate("a"), Generate("bad"), Generate("c")};
  for (auto& request : requests) request.set_request_id("same");
  std::vector<size_t> places;
  const auto answers = client_.GenerateMany(
      requests, {}, [&](size_t place, const auto&) { places.push_back(place); });
  EXPECT_EQ(places, (std::vector<size_t>{2, 1, 0}));
  ASSERT_THAT(answers, SizeIs(3));
  EXPECT_EQ(answers[0]->sequences(0).text(), "<a>");
  EXPECT_EQ(answers[0]->request_id(), "same");
  EXPECT_EQ(answers[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answers[1].status().message(), "prompt is bad");
  EXPECT_EQ(answers[2]->sequences(0).text(), "<c>");
  EXPECT_TRUE(client_.GenerateMany(std::span<const v1::GenerateRequest>()).empty());
}

TEST_F(ClientTest, AnErrorNamesItsField) {
  google::rpc::Status details;
  details.set_code(grpc::StatusCode::INVALID_ARGUMENT);
  details.set_message("limits.max_new_tokens is 0");
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("limits.max_new_tokens");
  details.add_details()->PackFrom(bad);
  server_.Fail(
      {grpc::StatusCode::INVALID_ARGUMENT, details.message(), details.SerializeAsString()});
  const absl::Status status = client_.Generate(Generate()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "limits.max_new_tokens is 0");
  EXPECT_EQ(InvalidField(status), "limits.max_new_tokens");
  server_.Fail({grpc::StatusCode::RESOURCE_EXHAUSTED, "full"});
  const absl::Status full = client_.Generate(Generate()).status();
  EXPECT_EQ(full, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(InvalidField(full), "");
}

TEST_F(ClientTest, AnAnswerLargerThanItTakesIsAnError) {
  Client small({.address = server_.address(), .max_message_bytes = 100});
  const auto answer = small.Generate(Generate(std::string(200, 'x')));
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
  EXPECT_TRUE(client_.Generate(Generate(std::string(200, 'x'))).ok());
}

TEST_F(ClientTest, CallsOfManyThreadsShareOneClient) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string prompt(static_cast<size_t>(i) + 1, 'x');
      for (int call = 0; call < 20; ++call) {
        EXPECT_EQ(client_.Generate(Generate(prompt))->sequences(0).text(), "<" + prompt + ">");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(server_.generates(), SizeIs(80));
}

}  // namespace
}  // namespace beamline::client_test
