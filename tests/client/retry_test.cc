// Calls that fail and are made again: which, when, and what is not.
#include "client/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/grpc_status.h"
#include "tests/client/failing_server.h"

namespace beamline::retry_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class RetryTest : public testing::Test {
 protected:
  static RetryPolicy Quick() {
    return {.max_attempts = 5, .initial_backoff = milliseconds(2), .max_backoff = milliseconds(8)};
  }
  static v1::EncodeRequest Encode(const std::string& text) {
    v1::EncodeRequest request;
    request.add_inputs()->set_text(text);
    return request;
  }
  // The models of the answers, which are the texts, or the codes of the errors.
  std::vector<std::string> EncodeMany(const std::vector<std::string>& texts,
                                      const CallOptions& options = {}) {
    std::vector<v1::EncodeRequest> requests;
    for (const std::string& text : texts) requests.push_back(Encode(text));
    std::vector<int> heard(texts.size());
    std::vector<std::string> answers;
    for (const auto& answer : client_.EncodeMany(
             requests, options, [&](size_t place, const auto&) { ++heard[place]; })) {
      answers.push_back(answer.ok() ? answer->model()
                                    : absl::StatusCodeToString(answer.status().code()));
    }
    EXPECT_EQ(heard, std::vector<int>(texts.size(), 1)) << "answers that were heard of";
    return answers;
  }

  FailingServer server_;
  Client client_{{.address = server_.address(), .retry = Quick()}};
};

TEST_F(RetryTest, AFailedCallIsMadeAgain) {
  server_.FailNext({Gone(), OnTheWire(Busy(0, 60'000'000)), Gone()});
  EXPECT_TRUE(client_.Generate({}).ok());
  ASSERT_THAT(server_.calls(), SizeIs(4));
  EXPECT_GE(server_.calls()[1] - server_.calls()[0], milliseconds(2));
  EXPECT_GE(server_.calls()[2] - server_.calls()[1], milliseconds(60));
}

TEST_F(RetryTest, NotByDefaultAndNotForEver) {
  server_.FailNext(std::deque<grpc::Status>(9, Gone()));
  EXPECT_TRUE(absl::IsUnavailable(client_.Generate({}).status()));
  EXPECT_THAT(server_.calls(), SizeIs(5));
  EXPECT_TRUE(absl::IsUnavailable(Client({.address = server_.address()}).Generate({}).status()));
  EXPECT_THAT(server_.calls(), SizeIs(6));
}

TEST_F(RetryTest, OtherErrorsAreFinal) {
  const std::vector<grpc::Status> errors = {
      {grpc::StatusCode::INVALID_ARGUMENT, "no"},
      {grpc::StatusCode::INTERNAL, "no"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max (9 vs. 4)"}};
  for (const grpc::Status& error : errors) {
    const size_t before = server_.calls().size();
    server_.FailNext({error});
    EXPECT_EQ(client_.Generate({}).status().message(), error.error_message());
    EXPECT_EQ(server_.calls().size(), before + 1);
  }
}

TEST_F(RetryTest, AWaitBeyondTheTimeoutIsNotBegun) {
  server_.FailNext({OnTheWire(Busy(20))});
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = client_.Generate({}, {.timeout = seconds(10)});
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
}

TEST_F(RetryTest, AStreamIsMadeAgainOnlyBeforeItBegins) {
  std::string text;
  const auto read = [&](const v1::GenerateStreamResponse& message) {
    for (const auto& delta : message.deltas()) text += delta.text();
    return true;
  };
  server_.FailNext({Gone(), Gone()});
  EXPECT_TRUE(client_.GenerateStream({}, read).ok());
  EXPECT_EQ(text, "aa");
  EXPECT_THAT(server_.calls(), SizeIs(3));
  v1::GenerateRequest breaks;
  breaks.set_model("breaks");
  EXPECT_TRUE(absl::IsUnavailable(client_.GenerateStream(breaks, read).status()));
  EXPECT_EQ(text, "aaa");
  EXPECT_THAT(server_.calls(), SizeIs(4));
}

TEST_F(RetryTest, OfManyThoseAreMadeAgainThatFailed) {
  server_.RefuseText("b", 2);
  EXPECT_THAT(EncodeMany({"a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(server_.texts(), ElementsAre("a", "b", "c", "b", "b"));
  server_.RefuseText("d", 100);
  EXPECT_THAT(EncodeMany({"d", "e"}), ElementsAre("RESOURCE_EXHAUSTED", "e"));
  EXPECT_THAT(EncodeMany({}), IsEmpty());
}

TEST_F(RetryTest, ABrokenStreamGoesOnWithWhatIsUnanswered) {
  server_.FailNext({Gone()});
  server_.BreakAfter({2, 0});
  EXPECT_THAT(EncodeMany({"a", "b", "c", "d"}), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(server_.texts(), ElementsAre("a", "b", "c", "d"));
  server_.FailNext(std::deque<grpc::Status>(9, Gone()));
  EXPECT_THAT(EncodeMany({"a", "b"}), ElementsAre("UNAVAILABLE", "UNAVAILABLE"));
}

TEST(RetryDelay, GrowsAndHasItsLimits) {
  const RetryPolicy policy = {.max_attempts = 8,
                              .initial_backoff = milliseconds(100),
                              .multiplier = 3,
                              .max_backoff = milliseconds(1000),
                              .jitter = 0.5};
  const absl::Status away = absl::UnavailableError("");
  EXPECT_EQ(RetryDelay(policy, away, 1, 0), milliseconds(100));
  EXPECT_EQ(RetryDelay(policy, away, 2, 0), milliseconds(300));
  EXPECT_EQ(RetryDelay(policy, away, 4, 0), milliseconds(1000));
  EXPECT_EQ(RetryDelay(policy, away, 2, 0.5), milliseconds(375));
  EXPECT_EQ(RetryDelay(policy, away, 8, 0), std::nullopt);
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(2)), 1, 0), milliseconds(2000));
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(61)), 1, 0), std::nullopt);
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(-5)), 1, 0), milliseconds(100));
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(std::numeric_limits<int64_t>::max())), 1, 0),
            std::nullopt);
  EXPECT_EQ(RetryDelay(policy, absl::ResourceExhaustedError("too large"), 1, 0), std::nullopt);
}

}  // namespace
}  // namespace beamline::retry_test
