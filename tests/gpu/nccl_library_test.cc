// What is said where NCCL is missing, or something else has its name. Needs no GPU.
#include "kernels/cuda/communication/nccl_library.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamline::cuda::nccl_library_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kVariable[] = "BEAMLINE_NCCL_LIBRARY";

std::string MessageOf(const absl::StatusOr<NcclLibrary>& nccl) {
  return std::string(nccl.status().message());
}

TEST(NcclLibraryTest, SaysWhereItWasLookedFor) {
  const std::vector<std::string> files = {"/nonexistent/libnccl.so.2", "/neither/libnccl.so.2"};
  const auto nccl = OpenNccl(files);
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(nccl),
              AllOf(HasSubstr("NCCL is not installed: looked for /nonexistent/libnccl.so.2, "
                              "/neither/libnccl.so.2"),
                    HasSubstr("BEAMLINE_NCCL_LIBRARY may name its file")));
}

TEST(NcclLibraryTest, NamesAFileThatDoesNotOpen) {
  ASSERT_EQ(setenv(kVariable, "/nonexistent/nccl.so", 1), 0);
  const auto nccl = OpenNccl();
  ASSERT_EQ(unsetenv(kVariable), 0);
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(nccl), AllOf(HasSubstr("BEAMLINE_NCCL_LIBRARY names a file"),
                                     HasSubstr("/nonexistent/nccl.so")));
}

// The C library has none of its functions.
TEST(NcclLibraryTest, RefusesAnotherLibrary) {
  ASSERT_EQ(setenv(kVariable, "libc.so.6", 1), 0);
  const auto nccl = OpenNccl();
  ASSERT_EQ(unsetenv(kVariable), 0);
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MessageOf(nccl), "libc.so.6 is not NCCL: it has no ncclGetVersion");
}

// Where it is installed it opens; elsewhere the reason names its file.
TEST(NcclLibraryTest, OpensOrSaysWhyNot) {
  const auto nccl = OpenNccl();
  if (nccl.ok()) {
    EXPECT_THAT(nccl->version, HasSubstr("2."));
  } else {
    EXPECT_THAT(MessageOf(nccl), HasSubstr("libnccl.so.2"));
  }
}

TEST(NcclLibraryTest, LeavesMulticastAndSharedAllocationsOff) {
  OpenNccl().IgnoreError();
  for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"}) {
    const char* const value = std::getenv(name);
    ASSERT_NE(value, nullptr) << name;
    EXPECT_STREQ(value, "0") << name;
  }
}

}  // namespace
}  // namespace beamline::cuda::nccl_library_test
