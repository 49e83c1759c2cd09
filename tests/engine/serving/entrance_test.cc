// The way into the engine under faults: whoever is refused is told once and leaves nothing behind.
#include "engine/serving/entrance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/intake/score_intake.h"
#include "tests/engine/late_replica.h"

namespace beamline {
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

TYPED_TEST(EntranceTest, WhatOnlyTokenizingShowsGoesToTheSink) {
  // On the caller's thread and on another one.
  for (const size_t bytes : {3, 3000}) {
    const auto sink = this->NewSink();
    ASSERT_TRUE(this->Accept(TypeParam::Unreadable(std::string(bytes, '\xff')), sink).ok());
    const Heard heard = sink->Wait();
    EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument) << heard.status;
    EXPECT_THAT(std::string(heard.status.message()), HasSubstr("text"));
    EXPECT_EQ(heard.waiting, 0);
  }
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
}  // namespace beamline
