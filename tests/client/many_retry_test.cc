// Streams whose requests come one by one and are sent again: each is answered once, in its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/many_requests.h"
#include "tests/client/failing_server.h"

namespace beamline::many_retry_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::SizeIs;

class ManyRetryTest : public testing::Test {
 protected:
  // The texts, then "not yet" as often as is said; the end.
  static Client::Source<v1::EncodeRequest> Source(std::vector<std::string> texts, int pauses = 0) {
    return [texts = std::move(texts), pauses,
            next = size_t{0}](absl::StatusOr<v1::EncodeRequest>& request) mutable {
      if (next == texts.size()) {
        if (pauses-- <= 0) return Client::Next::kEnd;
        std::this_thread::sleep_for(milliseconds(1));
        return Client::Next::kNotYet;
      }
      request = v1::EncodeRequest();
      request->set_request_id("id of " + texts[next]);
      request->add_inputs()->set_text(texts[next++]);
      return Client::Next::kRequest;
    };
  }

  absl::Status Run(const Client::Source<v1::EncodeRequest>& source,
                   const CallOptions& options = {}) {
    return client_.EncodeMany(
        source,
        [&](size_t place, const absl::StatusOr<v1::EncodeResponse>& answer) {
          const std::string text =
              answer.ok() ? answer->model() : absl::StatusCodeToString(answer.status().code());
          EXPECT_TRUE(!answer.ok() || answer->request_id() == "id of " + text) << text;
          EXPECT_TRUE(answers_.emplace(place, text).second) << place << " was answered before";
        },
        options);
  }
  // The answers by place.
  std::vector<std::string> Answers() const {
    std::vector<std::string> texts;
    for (const auto& [place, text] : answers_) {
      EXPECT_EQ(place, texts.size());
      texts.push_back(text);
    }
    return texts;
  }

  FailingServer server_;
  Client client_{
      {.address = server_.address(),
       .retry = {
           .max_attempts = 3, .initial_backoff = milliseconds(2), .max_backoff = milliseconds(8)}}};
  std::map<size_t, std::string> answers_;
};

TEST_F(ManyRetryTest, WhatABrokenStreamLeftIsSentAgain) {
  server_.FailNext({Gone(), OnTheWire(Busy(0, 40'000'000))});
  server_.BreakAfter({2, 0});
  EXPECT_TRUE(Run(Source({"a", "b", "c", "d", "e"})).ok());
  EXPECT_THAT(Answers(), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(server_.texts(), ElementsAre("a", "b", "c", "d", "e"));
  ASSERT_THAT(server_.calls(), SizeIs(5));
  EXPECT_GE(server_.calls()[2] - server_.calls()[1], milliseconds(40));
}

TEST_F(ManyRetryTest, TheSourceGoesOnWithTheNextStream) {
  server_.BreakAfter({1});
  EXPECT_TRUE(Run(Source({"a", "b"}, /*pauses=*/100)).ok());
  EXPECT_THAT(Answers(), ElementsAre("a", "b"));
}

TEST_F(ManyRetryTest, AnAnswerMakesUpForBrokenStreams) {
  server_.BreakAfter({1, 1, 1, 1, 1, 1, 1});
  const std::vector<std::string> texts = {"a", "b", "c", "d", "e", "f", "g", "h"};
  EXPECT_TRUE(Run(Source(texts)).ok());
  EXPECT_EQ(Answers(), texts);
  EXPECT_EQ(server_.texts(), texts);
}

TEST_F(ManyRetryTest, StreamsWithoutAnAnswerAreCounted) {
  server_.BreakAfter({1, 0, 0, 0, 0, 0});
  const absl::Status end = Run(Source({"a", "b", "c"}, /*pauses=*/20));
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_THAT(server_.calls(), SizeIs(3));  // the first has an answer and is the first to break
  EXPECT_EQ(answers_.at(0), "a");
  for (const auto& [place, text] : answers_) EXPECT_EQ(text, place == 0 ? "a" : "UNAVAILABLE");
}

TEST_F(ManyRetryTest, WithoutAPolicyNothingIsSentAgain) {
  Client client({.address = server_.address()});
  server_.BreakAfter({1});
  int num_failed = 0;
  const absl::Status end =
      client.EncodeMany(Source({"a", "b"}, /*pauses=*/20),
                        [&](size_t place, const absl::StatusOr<v1::EncodeResponse>& answer) {
                          num_failed += !answer.ok();
                          EXPECT_EQ(answer.ok(), place == 0);
                        });
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_EQ(num_failed, 1);
  EXPECT_THAT(server_.calls(), SizeIs(1));
}

TEST_F(ManyRetryTest, ARefusedRequestIsSentAgainByItself) {
  server_.RefuseText("b", 2);
  server_.RefuseText("c", 100);
  EXPECT_TRUE(Run(Source({"a", "b", "c", "d"}, /*pauses=*/200)).ok());
  EXPECT_THAT(Answers(), ElementsAre("a", "b", "RESOURCE_EXHAUSTED", "d"));
  EXPECT_THAT(server_.calls(), SizeIs(1));
}

TEST_F(ManyRetryTest, AlsoAfterTheSourcesEnd) {
  server_.RefuseText("c", 2);
  EXPECT_TRUE(Run(Source({"a", "b", "c"})).ok());
  EXPECT_THAT(Answers(), ElementsAre("a", "b", "c"));
}

TEST_F(ManyRetryTest, ASecondAnswerIsPassedOver) {
  EXPECT_TRUE(Run(Source({"twice", "b", "twice"})).ok());
  EXPECT_THAT(Answers(), ElementsAre("twice", "b", "twice"));
}

TEST_F(ManyRetryTest, TheTimeoutForTheNextAnswerCoversTheWaits) {
  server_.RefuseText("a", 1000);
  server_.FailNext(std::deque<grpc::Status>(9, OnTheWire(Busy(20))));
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status end = Run(Source({"a"}), {.timeout = seconds(10)});
  EXPECT_TRUE(absl::IsResourceExhausted(end)) << end;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
  EXPECT_THAT(server_.calls(), SizeIs(1));
}

TEST_F(ManyRetryTest, AlsoWhileNothingIsOwed) {
  server_.FailNext({OnTheWire(Busy(20))});
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status end = Run(Source({}, /*pauses=*/1000), {.timeout = seconds(10)});
  EXPECT_TRUE(absl::IsResourceExhausted(end)) << end;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
}

TEST_F(ManyRetryTest, TheSourceIsAskedForNoMoreThanTheWindow) {
  size_t num_given = 0;
  const Client::Source<v1::EncodeRequest> endless = [&](absl::StatusOr<v1::EncodeRequest>& one) {
    one = v1::EncodeRequest();
    const std::string text = num_given == 5 ? "silent" : "x";
    one->set_request_id("id of " + text);
    one->add_inputs()->set_text(text);
    ++num_given;
    return Client::Next::kRequest;
  };
  const absl::Status end = Run(endless, {.timeout = milliseconds(500)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
  EXPECT_EQ(num_given, 5 + kManyWindow);
  EXPECT_THAT(answers_, SizeIs(num_given));
  EXPECT_EQ(answers_.at(5), "DEADLINE_EXCEEDED");
}

}  // namespace
}  // namespace beamline::many_retry_test
