#include "kernels/device_memory.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamline::device_memory_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMiB = size_t{1} << 20;
constexpr GpuMemoryState kState = {
    .gpu = 1, .free_bytes = 1000 * kMiB, .total_bytes = 80000 * kMiB};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(GpuMemoryLimitTest, RangesAreChecked) {
  EXPECT_TRUE(CheckGpuMemoryLimit({}).ok());
  EXPECT_TRUE(CheckGpuMemoryLimit({.fraction = 0.01, .bytes = 1}).ok());
  for (const double bad : {0.0, -1.0, 1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    const absl::Status status = CheckGpuMemoryLimit({.fraction = bad});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("gpu_memory_fraction is "), HasSubstr("accepted: 0.01 to 0.99")));
  }
  for (const int64_t bad : {int64_t{-1}, (int64_t{1} << 50) + 1}) {
    EXPECT_THAT(Message(CheckGpuMemoryLimit({.bytes = bad})),
                AllOf(HasSubstr("gpu_memory_bytes is "), HasSubstr("accepted: 0 to")));
  }
}

TEST(GpuMemoryLimitTest, BytesGoBeforeTheFraction) {
  EXPECT_EQ(*GpuMemoryBytes({.fraction = 0.25}, kState), 250 * kMiB);
  EXPECT_EQ(*GpuMemoryBytes({.fraction = 0.25, .bytes = int64_t{1000 * kMiB}}, kState),
            1000 * kMiB);
}

TEST(GpuMemoryLimitTest, SaysWhenTheGpuIsFull) {
  const auto bytes = GpuMemoryBytes({.bytes = int64_t{1001 * kMiB}}, kState);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(bytes.status()),
              AllOf(HasSubstr("gpu_memory_bytes asks for 1001 MiB"),
                    HasSubstr("GPU 1 has 1000 MiB of 80000 MiB free"), HasSubstr("nvidia-smi")));
}

TEST(NoMemoryLeftTest, NamesWhatIsAskedUsedAndToBeRaised) {
  const std::vector<MemoryUse> uses = {{"weights", 600 * kMiB}, {"cache", 0}, {"workspaces", 300}};
  const absl::Status by_fraction = NoMemoryLeft(50 * kMiB, "cache", uses, 20 * kMiB, 10 * kMiB,
                                                DescribeGpuMemoryLimit({.fraction = 0.62}, kState));
  EXPECT_EQ(by_fraction.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(by_fraction),
              AllOf(HasSubstr("no 50 MiB of GPU memory for cache"), HasSubstr("weights 600 MiB"),
                    HasSubstr("cache 0 MiB"), HasSubstr("workspaces 300 bytes"),
                    HasSubstr("20 MiB are left;"), HasSubstr("limit is gpu_memory_fraction 0.62"),
                    HasSubstr("1000 MiB of the GPU's 80000 MiB were free")));
  // Enough in all, not in one piece.
  const absl::Status in_pieces =
      NoMemoryLeft(15 * kMiB, "cache", uses, 20 * kMiB, 10 * kMiB,
                   DescribeGpuMemoryLimit({.bytes = int64_t{620 * kMiB}}, kState));
  EXPECT_THAT(Message(in_pieces),
              AllOf(HasSubstr("20 MiB are left, 10 MiB at a time"),
                    HasSubstr("limit is gpu_memory_bytes 620 MiB"), Not(HasSubstr("fraction"))));
}

}  // namespace
}  // namespace beamline::device_memory_test
