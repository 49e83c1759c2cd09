#include "engine/loading/make_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace beamline::make_backend_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const ModelNeeds kNeeds = {.precision = DType::kFloat32, .head_dim = 64, .hidden_size = 256};

// No GPU can be used: its backend is not where it is looked for.
class MakeBackendTest : public testing::Test {
 protected:
  MakeBackendTest() { setenv("BEAMLINE_CUDA_MODULE", "/nonexistent/module.so", 1); }
  ~MakeBackendTest() override { unsetenv("BEAMLINE_CUDA_MODULE"); }
};

TEST_F(MakeBackendTest, TheCpuIsWhatWasAskedFor) {
  const auto chosen = MakeBackend("cpu", kNeeds, {3});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->backend->Name(), "cpu");
  EXPECT_THAT(chosen->backend->Description(), HasSubstr(", 3 threads,"));
  EXPECT_EQ(chosen->reason, "the CPU was asked for");
}

TEST_F(MakeBackendTest, WithoutAGpuAutoIsTheCpuAndSaysWhy) {
  const auto chosen = MakeBackend("auto", kNeeds, {2});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->backend->Name(), "cpu");
  EXPECT_THAT(chosen->backend->Description(), HasSubstr(", 2 threads,"));
  EXPECT_THAT(chosen->reason,
              testing::AnyOf(HasSubstr("NVIDIA driver"), HasSubstr("/nonexistent/module.so")));
}

TEST_F(MakeBackendTest, AGpuThatIsNotThereIsAnErrorWithTheSameReason) {
  const auto instead = MakeBackend("auto", kNeeds, {1});
  ASSERT_TRUE(instead.ok()) << instead.status();
  for (const std::string device : {"cuda", "cuda:0", "cuda:7"}) {
    const absl::Status status = MakeBackend(device, kNeeds, {1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(status.message(),
              "device is '" + device + "', which does not work here: " + instead->reason);
  }
}

TEST_F(MakeBackendTest, OtherNamesAreRefused) {
  for (const std::string device : {"", "tpu", "CPU", "cpu:0", "gpu", "cuda:", "cuda:-1", "cuda:1x",
                                   "cuda0", "cuda:99999999999"}) {
    const absl::Status status = MakeBackend(device, kNeeds, {1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << device;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("device is '" + device + "'; accepted: auto, cpu, cuda, cuda:0"));
  }
}

TEST_F(MakeBackendTest, ATypeThatTheCpuDoesNotComputeInIsAnError) {
  const ModelNeeds half = {.precision = DType::kFloat16, .head_dim = 64, .hidden_size = 256};
  for (const char* device : {"cpu", "auto"}) {
    const absl::Status status = MakeBackend(device, half, {1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not in float16"));
  }
}

}  // namespace
}  // namespace beamline::make_backend_test
