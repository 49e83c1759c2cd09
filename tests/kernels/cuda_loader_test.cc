#include "kernels/cuda_loader.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/gpu_presence.h"
#include "tests/kernels/test_gpu_memory.h"

namespace beamline::cuda_loader_test {
namespace {

using testing::HasSubstr;

#ifdef BEAMLINE_HAS_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

// Where the driver shows a GPU it works; elsewhere the reason is a sentence about what is missing.
TEST(CudaLoaderTest, OpensTheGpuOrSaysWhyThereIsNone) {
  const auto gpus = CountGpusOfDriver();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  const auto count = CountCudaDevices();
  if (kBuiltWithCuda && *gpus > 0) {
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, *gpus);
    const auto backend = MakeCudaBackend(0, kTestGpuMemory);
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_EQ((*backend)->Name(), "cuda:0");
    return;
  }
  EXPECT_EQ(count.status().code(), absl::StatusCode::kUnavailable) << count.status();
  EXPECT_GT(count.status().message().size(), 20u);
  EXPECT_EQ(MakeCudaBackend(0, kTestGpuMemory).status(), count.status());
  EXPECT_EQ(MakeCudaCommunicators({}, RankTraffic::kCollectives).status(), count.status());
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
}  // namespace beamline::cuda_loader_test
