// The way into the engine under faults: whoever is refused is told once and leaves nothing behind.
#include "engine/serving/entrance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/intake/score_intake.h"
#include "tests/engine/late_replica.h"

namespace beamline::entrance_test {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kLong(60);

// The answer's status, and how many requests waited when it came.
struct Heard {
  absl::Status status;
  int64_t waiting = 0;
};

template <typename Base, typename Result>
class HearingSink : public Base {
 public:
  explicit HearingSink(const WaitingCounter& counter) : counter_(counter) {}
  void OnFinish(absl::StatusOr<Result> result) override {
    called = true;
    heard_.set_value({result.status(), counter_.count()});
  }
  Heard Wait() { return heard_.get_future().get(); }

  std::atomic<bool> called = false;

 private:
  const WaitingCounter& counter_;
  std::promise<Heard> heard_;
};

// Requests of one kind: small ones, and such that only tokenizing refuses. A text of `long_text`
// goes to a thread of its own.
struct Generate {
  using Intake = GenerateIntake;
  using Sink = HearingSink<GenerateSink, GenerateResult>;
  static constexpr char kModel[] = "write-en";
  static GenerateRequest Small() { return Write("Package: door", 2); }
  static GenerateRequest Unreadable(const std::string& text) { return Write(text, 2); }
  static GenerateRequest Refused() { return Write("Package: door", 100000); }
};
struct Score {
  using Intake = ScoreIntake;
  using Sink = HearingSink<ScoreSink, ScoreResult>;
  static constexpr char kModel[] = "write-en";
  static ScoreRequest Small() {
    ScoreRequest request;
    request.model = kModel;
    request.prompt = "Package: door";
    request.continuations = {" and", " window"};
    return request;
  }
  static ScoreRequest Unreadable(const std::string& text) {
    ScoreRequest request = Small();
    request.continuations[1] = text;
    return request;
  }
  static ScoreRequest Refused() {
    ScoreRequest request = Small();
    request.continuations.clear();
    return request;
  }
};
struct Encode {
  using Intake = EncodeIntake;
  using Sink = HearingSink<EncodeSink, EncodeResult>;
  static constexpr char kModel[] = "embed-en";
  static EncodeRequest Small() {
    EncodeRequest request;
    request.model = kModel;
    request.inputs = {"a door", "a window"};
    return request;
  }
  static EncodeRequest Unreadable(const std::string& text) {
    EncodeRequest request = Small();
    request.inputs[1] = text;
    return request;
  }
  static EncodeRequest Refused() {
    EncodeRequest request = Small();
    request.inputs.clear();
    return request;
  }
};

template <typename Kind>
class EntranceTest : public testing::Test {
 protected:
  static ModelOptions Options() {
    ModelOptions options = Demo(Kind::kModel);
    options.device = "cpu";
    options.max_queued_requests = 2;
    options.max_queued_tokens = 50;
    return options;
  }
  WaitingCounter& waiting() { return late_.pool().waiting(); }
  std::shared_ptr<typename Kind::Sink> NewSink() {
    return std::make_shared<typename Kind::Sink>(waiting());
  }
  template <typename Request>
  absl::Status Accept(Request request, std::shared_ptr<typename Kind::Sink> sink) {
    return entrance_
        .template Accept<typename Kind::Intake>(std::move(request), std::move(sink), late_.Enter())
        .status();
  }
  // The request is refused at once with this code, and nothing of it is left.
  template <typename Request>
  void ExpectRefused(Request request, absl::StatusCode code, const std::string& message) {
    const int64_t before = waiting().count();
    const auto sink = NewSink();
    const absl::Status status = Accept(std::move(request), sink);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_FALSE(sink->called);
    EXPECT_EQ(sink.use_count(), 1);
    EXPECT_EQ(waiting().count(), before);
  }

  // Another request, which waits: of this client, cost and tokens.
  WaitingCount Wait(const std::string& client, int64_t cost, int64_t input_tokens) {
    WaitingCount waiter = *WaitingCount::Enter(waiting(), 10);
    EXPECT_FALSE(waiter.Describe({0, client, cost, input_tokens, Clock::now()}, 50).has_value());
    return waiter;
  }
  // The replica is known to serve so much a second.
  void SetRate(double cost_per_second) {
    ServiceRate& rate = late_.replica().stats().service;
    rate.AddStep({.seconds = 1000 / cost_per_second,
                  .served = 1000,
                  .answers = ServiceRate::kLeastAnswers,
                  .left_waiting = true},
                 Clock::now());
  }

  bool Drain(std::chrono::milliseconds timeout) {
    entrance_.StartDraining();
    return late_.pool().tickets().WaitForNone(timeout);
  }

  LateReplica late_{Options()};
  Entrance entrance_{1};
};

using Kinds = testing::Types<Generate, Score, Encode>;
TYPED_TEST_SUITE(EntranceTest, Kinds);

TYPED_TEST(EntranceTest, AnswersWhatItAccepts) {
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Small(), sink).ok());
  const Heard heard = sink->Wait();
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.waiting, 0);
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, RefusesByNameBeforeAnythingIsCounted) {
  this->ExpectRefused(TypeParam::Refused(), absl::StatusCode::kInvalidArgument, "; accepted: ");
  EXPECT_TRUE(this->Drain(std::chrono::milliseconds(0)));
}

TYPED_TEST(EntranceTest, AFullQueueRefusesUntilThereIsRoom) {
  auto first = WaitingCount::Enter(this->waiting(), 2);
  auto second = WaitingCount::Enter(this->waiting(), 2);
  this->ExpectRefused(TypeParam::Small(), absl::StatusCode::kResourceExhausted,
                      std::string("2 requests wait for model '") + TypeParam::kModel +
                          "' already; accepted: at most 2");
  first->Leave();
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Small(), sink).ok());
  const Heard heard = sink->Wait();
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.waiting, 1);
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, ADeadlineBehindTheQueueIsRefusedAtOnce) {
  auto request = TypeParam::Small();
  request.deadline = Clock::now() + kLong;
  WaitingCount other = this->Wait("", /*cost=*/1000, /*input_tokens=*/1);
  const auto unknown = this->NewSink();  // how long it takes is not known
  ASSERT_TRUE(this->Accept(request, unknown).ok());
  EXPECT_TRUE(unknown->Wait().status.ok());
  this->SetRate(1);
  const auto refused = this->NewSink();
  const absl::Status status = this->Accept(request, refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("with those before it; its deadline is in"));
  EXPECT_EQ(std::string(*status.GetPayload(kRefusalPayload)), kRefusedByDeadline);
  EXPECT_EQ(std::string(*status.GetPayload(kRetryAfterPayload)), "60000");
  EXPECT_FALSE(refused->called);
  EXPECT_EQ(this->waiting().count(), 1);
  // Without a deadline, or when nobody is before it any more.
  const auto patient = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Small(), patient).ok());
  EXPECT_TRUE(patient->Wait().status.ok());
  other.Leave();
  const auto alone = this->NewSink();
  ASSERT_TRUE(this->Accept(request, alone).ok());
  EXPECT_TRUE(alone->Wait().status.ok());
  EXPECT_TRUE(this->Drain(kLong));
}

// A short request is refused where a longer one has been that its deadline would have allowed, and
// there alone.
TYPED_TEST(EntranceTest, WhatLeavesNoRoomForLongerOnesIsRefused) {
  if constexpr (std::is_same_v<TypeParam, Generate>) {
    const WaitingCount other = this->Wait("", /*cost=*/500, /*input_tokens=*/1);
    this->SetRate(10);  // the queue takes 50 s
    ServiceRate& rate = this->late_.replica().stats().service;
    const auto accept = [&](int32_t steps, std::chrono::seconds deadline) {
      // What a step takes: told anew, and so often that what the replica's own took counts nothing.
      for (int i = 0; i < 200; ++i) rate.AddAnswer(1, 0.5, Clock::now());
      auto request = Write("Package: door", steps);
      request.deadline = Clock::now() + deadline;
      const auto sink = this->NewSink();
      const absl::Status status = this->Accept(request, sink);
      if (status.ok()) {
        EXPECT_TRUE(sink->Wait().status.ok());
      }
      return status;
    };
    using std::chrono::seconds;
    ASSERT_TRUE(accept(2, seconds(75)).ok());
    // Too long for its deadline whoever waits: nothing is kept for it.
    EXPECT_TRUE(absl::IsResourceExhausted(accept(200, seconds(75))));
    ASSERT_TRUE(accept(2, seconds(75)).ok());
    // The queue alone refuses it, before it is tokenized: its length counts all the same.
    EXPECT_TRUE(absl::IsResourceExhausted(accept(60, seconds(60))));
    const absl::Status status = accept(2, seconds(75));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("and longer ones, which are refused, "));
    EXPECT_EQ(std::string(*status.GetPayload(kRefusalPayload)), kRefusedByDeadline);
    EXPECT_TRUE(status.GetPayload(kRetryAfterPayload).has_value());
    // Where its deadline leaves that room, it is taken.
    EXPECT_TRUE(accept(2, seconds(1000)).ok());
  }
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, OfAnotherClientsQueueOnlyAShareCounts) {
  auto request = TypeParam::Small();
  request.client = "quiet";
  request.deadline = Clock::now() + kLong;
  const WaitingCount busy = this->Wait("busy", /*cost=*/1000000, /*input_tokens=*/1);
  this->SetRate(100);
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(request, sink).ok());
  EXPECT_TRUE(sink->Wait().status.ok());
  // Even a share is too much, for one of whom something runs: else it would begin at once.
  WaitingCount own = this->Wait("quiet", /*cost=*/1, /*input_tokens=*/1);
  own.Begin(own.fair_tag());
  this->SetRate(1e-3);
  const auto refused = this->NewSink();
  const absl::Status status = this->Accept(request, refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(status.GetPayload(kRefusalPayload).has_value());
  EXPECT_FALSE(refused->called);
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, TooManyTokensBesideThoseThatWaitAreRefused) {
  WaitingCount other = this->Wait("", /*cost=*/1, /*input_tokens=*/50);
  const auto refused = this->NewSink();
  const absl::Status status = this->Accept(TypeParam::Small(), refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: at most 50"));
  EXPECT_EQ(std::string(*status.GetPayload(kRefusalPayload)), kRefusedByTokens);
  EXPECT_FALSE(refused->called);
  EXPECT_EQ(refused.use_count(), 1);
  EXPECT_EQ(this->waiting().count(), 1);
  other.Leave();
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Small(), sink).ok());
  EXPECT_TRUE(sink->Wait().status.ok());
  EXPECT_TRUE(this->Drain(kLong));
}

// Its answer keeps the thread that gives it until it is let go.
template <typename Base, typename Result>
class HoldingSink final : public Base {
 public:
  using Base::Base;
  void OnFinish(absl::StatusOr<Result> result) override {
    begun_.set_value();
    let_go_.get_future().wait();
    Base::OnFinish(std::move(result));
  }
  void WaitForBegin() { begun_.get_future().wait(); }
  void LetGo() { let_go_.set_value(); }

 private:
  std::promise<void> begun_, let_go_;
};

// A text that cannot be read would be told so by the tokenizer.
TYPED_TEST(EntranceTest, WhatIsCancelledBeforeItsTurnIsNotTokenized) {
  using Sink = HoldingSink<typename TypeParam::Sink, typename TypeParam::Intake::Result>;
  const std::string text = std::string(600, 'x') + "\xff";
  const auto holding = std::make_shared<Sink>(this->waiting());
  ASSERT_TRUE(this->Accept(TypeParam::Unreadable(text), holding).ok());
  holding->WaitForBegin();
  const auto sink = this->NewSink();
  const auto handle = this->entrance_.template Accept<typename TypeParam::Intake>(
      TypeParam::Unreadable(text), sink, this->late_.Enter());
  ASSERT_TRUE(handle.ok()) << handle.status();
  (*handle)->Cancel();
  holding->LetGo();
  EXPECT_EQ(sink->Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(holding->Wait().status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, DrainingRefuses) {
  EXPECT_TRUE(this->Drain(std::chrono::milliseconds(0)));
  this->ExpectRefused(TypeParam::Small(), absl::StatusCode::kUnavailable, "draining");
  EXPECT_TRUE(this->Drain(std::chrono::milliseconds(0)));
}

TYPED_TEST(EntranceTest, AFailedDeviceRefuses) {
  this->late_.backend().BreakAfter(0);
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Small(), sink).ok());
  const Heard heard = sink->Wait();
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnavailable) << heard.status;
  EXPECT_EQ(heard.waiting, 0);
  this->ExpectRefused(TypeParam::Small(), absl::StatusCode::kUnavailable,
                      "cannot answer: its device");
  EXPECT_TRUE(this->Drain(kLong));
}

TYPED_TEST(EntranceTest, WhatOnlyTokenizingShowsIsToldAtOnceOfShortTexts) {
  this->ExpectRefused(TypeParam::Unreadable("\xff\xff\xff"), absl::StatusCode::kInvalidArgument,
                      "text");
  // Another thread tokenizes it.
  const auto sink = this->NewSink();
  ASSERT_TRUE(this->Accept(TypeParam::Unreadable(std::string(3000, '\xff')), sink).ok());
  const Heard heard = sink->Wait();
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument) << heard.status;
  EXPECT_THAT(std::string(heard.status.message()), HasSubstr("text"));
  EXPECT_EQ(heard.waiting, 0);
  EXPECT_TRUE(this->Drain(kLong));
  EXPECT_EQ(this->late_.stats().steps.load(), 0u);
}

// At the end, what waits for a thread to tokenize it is answered too.
TYPED_TEST(EntranceTest, ClosingLosesNobody) {
  std::vector<std::shared_ptr<typename TypeParam::Sink>> sinks;
  for (int i = 0; i < 2; ++i) {
    sinks.push_back(this->NewSink());
    ASSERT_TRUE(this->Accept(TypeParam::Unreadable(std::string(3000, '\xff')), sinks[i]).ok());
  }
  this->entrance_.Close();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->called);
  EXPECT_EQ(this->waiting().count(), 0);
}

}  // namespace
}  // namespace beamline::entrance_test
