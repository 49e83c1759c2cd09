#include "kernels/cpu/sanitized_range.h"

#include <gtest/gtest.h>

#include <vector>

namespace beamline::cpu::sanitized_range_test {
namespace {

TEST(SanitizedRangeDeathTest, EndsWhereARangeLeavesItsMemory) {
  std::vector<float> values(100);
  SanitizeRead(values.data(), 400);
  SanitizeWrite(values.data(), 400);
  EXPECT_DEATH(SanitizeRead(values.data(), 404), "heap-buffer-overflow");
  EXPECT_DEATH(SanitizeWrite(values.data() + 99, 8), "heap-buffer-overflow");
  EXPECT_DEATH(SanitizeRead(values.data() - 1, 8), "heap-buffer-overflow");
}

}  // namespace
}  // namespace beamline::cpu::sanitized_range_test
