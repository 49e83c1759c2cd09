// What a request's charge hears of it: its tokens once they are known, and its end once.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/serving/entrance.h"
#include "tests/engine/late_replica.h"

namespace beamline::charge_test {
namespace {

class RecordingCharge final : public TokenCharge {
 public:
  absl::Status Check() override { return may_check ? absl::OkStatus() : Refused(); }
  absl::Status Take(int64_t tokens) override {
    std::lock_guard lock(mutex);
    if (!may_take) return Refused();
    taken.push_back(tokens);
    return absl::OkStatus();
  }
  void Settle(int64_t of, int64_t used) override {
    std::lock_guard lock(mutex);
    settled.emplace_back(of, used);
  }
  static absl::Status Refused() { return absl::ResourceExhaustedError("no tokens are left"); }

  bool may_check = true, may_take = true;
  std::mutex mutex;
  std::vector<int64_t> taken;
  std::vector<std::pair<int64_t, int64_t>> settled;  // taken, used
};

template <typename Base, typename Result>
class WaitingSink : public Base {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(std::move(result)); }
  absl::StatusOr<Result> Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
};
using EncodeWaiter = WaitingSink<EncodeSink, EncodeResult>;
using GenerateWaiter = WaitingSink<GenerateSink, GenerateResult>;

// Calls with the first of its text.
class StreamWaiter final : public GenerateWaiter {
 public:
  bool wants_deltas() const override { return true; }
  void OnDelta(GenerateDelta) override {
    if (!std::exchange(has_begun_, true)) on_begin.get_future().get()();
  }
  std::promise<std::function<void()>> on_begin;

 private:
  bool has_begun_ = false;
};

class ChargeTest : public testing::Test {
 protected:
  static ModelOptions Options(const std::string& name) {
    ModelOptions options = Demo(name);
    options.device = "cpu";
    return options;
  }
  GenerateRequest Write(int32_t max_new_tokens) const {
    GenerateRequest request;
    request.model = "write-en";
    request.prompt = TokenIds{5, 6, 7};
    request.decoding = GreedyOptions{};
    request.limits.max_new_tokens = max_new_tokens;
    request.limits.ignore_eos = true;
    request.charge = charge_;
    return request;
  }
  template <typename Intake, typename Sink>
  absl::StatusOr<std::shared_ptr<RequestHandle>> Accept(LateReplica& late,
                                                        typename Intake::Request request,
                                                        const std::shared_ptr<Sink>& sink) {
    return entrance_.Accept<Intake>(std::move(request), sink, late.Enter());
  }

  const std::shared_ptr<RecordingCharge> charge_ = std::make_shared<RecordingCharge>();
  Entrance entrance_{1};
};

TEST_F(ChargeTest, TextsTakeWhatTheyMayComeToAndUseWhatTheyDo) {
  LateReplica late(Options("write-en"));
  GenerateRequest request = Write(30);
  request.decoding = BeamOptions{.width = 4, .num_sequences = 2};
  const auto sink = std::make_shared<GenerateWaiter>();
  ASSERT_TRUE(Accept<GenerateIntake>(late, std::move(request), sink).ok());
  const auto result = sink->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(charge_->taken, (std::vector<int64_t>{3 + 4 * 30}));
  ASSERT_EQ(charge_->settled.size(), 1U);
  EXPECT_EQ(charge_->settled[0].first, 3 + 4 * 30);
  EXPECT_EQ(charge_->settled[0].second, 3 + result->usage.generated_tokens);
}

TEST_F(ChargeTest, InputsAreUsedAsAWhole) {
  LateReplica late(Options("embed-en"));
  EncodeRequest request;
  request.model = "embed-en";
  request.inputs = {TokenIds{5, 6, 7}, TokenIds{8}};
  request.charge = charge_;
  const auto sink = std::make_shared<EncodeWaiter>();
  ASSERT_TRUE(Accept<EncodeIntake>(late, std::move(request), sink).ok());
  ASSERT_TRUE(sink->Wait().ok());
  EXPECT_EQ(charge_->taken, (std::vector<int64_t>{4}));
  EXPECT_EQ(charge_->settled, (std::vector<std::pair<int64_t, int64_t>>{{4, 4}}));
}

TEST_F(ChargeTest, WhatIsRefusedLeavesNothing) {
  LateReplica late(Options("write-en"));
  charge_->may_take = false;
  const auto sink = std::make_shared<GenerateWaiter>();
  EXPECT_EQ(Accept<GenerateIntake>(late, Write(5), sink).status(), RecordingCharge::Refused());
  EXPECT_EQ(sink.use_count(), 1);
  EXPECT_TRUE(charge_->settled.empty());
  EXPECT_EQ(late.pool().waiting().count(), 0);
  EXPECT_TRUE(late.pool().tickets().WaitForNone(std::chrono::seconds(60)));
}

// It would cost more to tokenize it than to refuse it.
TEST_F(ChargeTest, ALongTextIsRefusedBeforeItIsTokenized) {
  LateReplica late(Options("write-en"));
  charge_->may_check = false;
  const auto sink = std::make_shared<GenerateWaiter>();
  GenerateRequest request = Write(5);
  request.prompt = std::string(600, 'a');
  EXPECT_EQ(Accept<GenerateIntake>(late, std::move(request), sink).status(),
            RecordingCharge::Refused());
  EXPECT_EQ(sink.use_count(), 1);
  const auto brief = std::make_shared<GenerateWaiter>();
  ASSERT_TRUE(Accept<GenerateIntake>(late, Write(5), brief).ok());
  EXPECT_TRUE(brief->Wait().ok());
}

TEST_F(ChargeTest, WhatTheQueueRefusesIsGivenBack) {
  ModelOptions options = Options("write-en");
  options.max_queued_tokens = 10;
  LateReplica late(options);
  WaitingCount other = *WaitingCount::Enter(late.pool().waiting(), 10);
  ASSERT_FALSE(other.Describe({0, "", 1, 10, Clock::now()}, 10).has_value());
  const auto sink = std::make_shared<GenerateWaiter>();
  EXPECT_TRUE(absl::IsResourceExhausted(Accept<GenerateIntake>(late, Write(5), sink).status()));
  EXPECT_EQ(charge_->settled, (std::vector<std::pair<int64_t, int64_t>>{{8, 0}}));
}

TEST_F(ChargeTest, WhatIsCancelledPaysForWhatItHad) {
  LateReplica late(Options("write-en"));
  const auto sink = std::make_shared<StreamWaiter>();
  const auto handle = Accept<GenerateIntake>(late, Write(100), sink);
  ASSERT_TRUE(handle.ok()) << handle.status();
  sink->on_begin.set_value([&handle] { (*handle)->Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(sink->Wait().status()));
  ASSERT_EQ(charge_->settled.size(), 1U);
  const auto [taken, used] = charge_->settled[0];
  EXPECT_EQ(taken, 103);
  EXPECT_GT(used, 3);
  EXPECT_LT(used, 103);
}

TEST_F(ChargeTest, WhatADeviceFailsIsGivenBack) {
  LateReplica late(Options("write-en"));
  late.backend().BreakAfter(0);
  const auto sink = std::make_shared<GenerateWaiter>();
  ASSERT_TRUE(Accept<GenerateIntake>(late, Write(5), sink).ok());
  EXPECT_TRUE(absl::IsUnavailable(sink->Wait().status()));
  EXPECT_EQ(charge_->settled, (std::vector<std::pair<int64_t, int64_t>>{{8, 0}}));
}

}  // namespace
}  // namespace beamline::charge_test
