// The main of the tests that need a GPU, or as many as BEAMLINE_GPUS_NEEDED: without they are
// skipped, with a status of their own, and nothing else is. A backend that does not open where
// there is a GPU fails them. With BEAMLINE_REQUIRE_GPU=1 in the environment a skip is a failure, of
// the program and of a test in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/kernels/gpu_presence.h"

#ifndef BEAMLINE_GPUS_NEEDED
#define BEAMLINE_GPUS_NEEDED 1
#endif

namespace {

constexpr int kGpusNeeded = BEAMLINE_GPUS_NEEDED;
constexpr int kFailed = 1;
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in cmake/BeamlineTargets.cmake
// These hold a backend to equal bits alone and in any batch, which cuBLASLt does not give.
constexpr char kNoTestsOfAGpu[] =
    "-*RowsDoNotDependOnTheirBatch*:*SequencesDoNotDependOnTheirBatch*:"
    "*ChunkedPrefillGivesTheSameBits*";

bool GpuIsRequired() {
  const char* required = std::getenv("BEAMLINE_REQUIRE_GPU");
  return required != nullptr && std::string_view(required) == "1";
}

}  // namespace

int main(int argc, char** argv) {
  // As kernels/cuda_loader.cc does: eight ranks that share a GPU have more streams than the driver
  // has queues without it, and wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*replace=*/0);
  // A filter of the environment or the command line stands instead.
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, kNoTestsOfAGpu);
  testing::InitGoogleMock(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const auto gpus = beamline::CountGpusOfDriver();
  if (!gpus.ok()) {
    std::fprintf(stderr, "FAILED: %s\n", gpus.status().ToString().c_str());
    return kFailed;
  }
  if (*gpus < kGpusNeeded) {
    const bool required = GpuIsRequired();
    std::fprintf(stderr, "%s: this machine has %d GPUs of the %d that are needed, no test ran\n",
                 required ? "FAILED" : "SKIPPED", *gpus, kGpusNeeded);
    return required ? kFailed : kSkipped;
  }
  const int status = RUN_ALL_TESTS();
  const auto& tests = *testing::UnitTest::GetInstance();
  if (tests.successful_test_count() + tests.failed_test_count() == 0) {
    std::fprintf(stderr, "FAILED: no test ran\n");
    return kFailed;
  }
  if (GpuIsRequired() && tests.skipped_test_count() > 0) {
    std::fprintf(stderr, "FAILED: %d tests were skipped\n", tests.skipped_test_count());
    return kFailed;
  }
  return status;
}
