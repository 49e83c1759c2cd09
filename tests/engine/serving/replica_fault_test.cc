// A device that breaks: its replica says so and ends, and no request is left without an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/engine/late_replica.h"

namespace beamline::replica_fault_test {
namespace {

using testing::HasSubstr;

GenerateRequest LongRequest(int number) {
  GenerateRequest request = Write("Package: lib" + std::to_string(number) + "\nSynopsis:", 60);
  request.limits.ignore_eos = true;
  if (number % 4 == 1) request.decoding = SamplingOptions{.seed = 3, .num_sequences = 3};
  if (number % 4 == 2) request.decoding = BeamOptions{.width = 3};
  return request;
}

void ExpectFault(const absl::Status& status, const std::string& model) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model '" + model + "' cannot answer: its device"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the late device broke"));
}

// Whatever the step at which it breaks, and whatever is then in flight.
TEST(FaultTest, ABrokenDeviceEndsEveryRequestOfItsModel) {
  for (const int64_t reads : {0, 1, 2, 3, 5, 8, 13, 21}) {
    LateReplica replica("write-en");
    replica.backend().BreakAfter(reads);
    std::atomic<int> told = 0;
    replica.fault().Listen([&](const absl::Status& fault) {
      ExpectFault(fault, "write-en");
      ++told;
    });
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 8; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/i % 2 == 0));
      replica.Submit(LongRequest(i), sinks.back());
    }
    for (const auto& sink : sinks) {
      ExpectFault(sink->Wait().status(), "write-en");
      EXPECT_EQ(told, 1);  // before the first request was
    }
    auto late = std::make_shared<RecordingSink>();
    replica.Submit(LongRequest(0), late);
    ExpectFault(late->Wait().status(), "write-en");
    ExpectFault(replica.fault().status(), "write-en");
    EXPECT_TRUE(replica.WaitForAll());
    EXPECT_EQ(replica.waiting().count(), 0);
    EXPECT_EQ(told, 1);
    replica.fault().Listen([&](const absl::Status&) { ++told; });
    EXPECT_EQ(told, 2);  // at once
  }
}

TEST(FaultTest, ABrokenDeviceEndsEveryRequestOfAnEncoder) {
  LateReplica replica("embed-en");
  EncodeRequest request;
  request.model = "embed-en";
  request.inputs = {"a text before the fault"};
  auto before = std::make_shared<RecordingEncodeSink>();
  replica.Submit(request, before);
  EXPECT_TRUE(before->Wait().ok());
  replica.backend().BreakAfter(0);
  std::vector<std::shared_ptr<RecordingEncodeSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    request.inputs.assign(1 + i % 3, "text " + std::to_string(i));
    request.per_token = i % 2 == 1;
    sinks.push_back(std::make_shared<RecordingEncodeSink>());
    replica.Submit(request, sinks.back());
  }
  for (const auto& sink : sinks) ExpectFault(sink->Wait().status(), "embed-en");
  auto late = std::make_shared<RecordingEncodeSink>();
  replica.Submit(request, late);
  ExpectFault(late->Wait().status(), "embed-en");
  EXPECT_TRUE(replica.WaitForAll());
  EXPECT_EQ(replica.waiting().count(), 0);
}

// An error that the device survives is the error of that step's requests alone.
TEST(FaultTest, ARefusalOfMemoryIsSurvived) {
  LateReplica replica("write-en");
  replica.backend().RefuseReadBack();
  auto refused = std::make_shared<RecordingSink>();
  replica.Submit(LongRequest(0), refused);
  EXPECT_EQ(refused->Wait().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(replica.fault().status().ok());
  auto next = std::make_shared<RecordingSink>();
  replica.Submit(LongRequest(0), next);
  const auto result = next->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto expected = SharedEngine().GenerateAndWait(LongRequest(0));
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(result->sequences[0].ids, expected->sequences[0].ids);
}

}  // namespace
}  // namespace beamline::replica_fault_test
