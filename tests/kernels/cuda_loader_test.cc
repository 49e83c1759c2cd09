#include "kernels/cuda_loader.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/test_gpu_memory.h"

namespace beamline {
namespace {

using testing::HasSubstr;

// Either a GPU is there and answers, or the reason is a sentence about what is missing.
TEST(CudaLoaderTest, SaysWhyThereIsNoGpu) {
  const auto count = CountCudaDevices();
  if (count.ok()) {
    EXPECT_GE(*count, 1);
    const auto backend = MakeCudaBackend(0, kTestGpuMemory);
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->Name(), "cuda:0");
    return;
  }
  EXPECT_EQ(count.status().code(), absl::StatusCode::kUnavailable) << count.status();
  EXPECT_GT(count.status().message().size(), 20u);
  EXPECT_EQ(MakeCudaBackend(0, kTestGpuMemory).status(), count.status());
}

TEST(CudaLoaderTest, NamesAModuleThatDoesNotExist) {
  ASSERT_EQ(setenv("BEAMLINE_CUDA_MODULE", "/nonexistent/module.so", 1), 0);
  const auto backend = MakeCudaBackend(0, kTestGpuMemory);
  ASSERT_EQ(unsetenv("BEAMLINE_CUDA_MODULE"), 0);
  ASSERT_FALSE(backend.ok());
  // Without a driver the search stops before the module.
  EXPECT_THAT(std::string(backend.status().message()),
              testing::AnyOf(HasSubstr("/nonexistent/module.so"), HasSubstr("driver")));
}

TEST(CudaLoaderTest, RefusesAGpuThatDoesNotExist) {
  EXPECT_EQ(MakeCudaBackend(4096).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace beamline
