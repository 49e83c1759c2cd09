#include "base/math.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace beamline::math_test {
namespace {

TEST(Math, RoundsUp) {
  for (int a = 0; a < 30; ++a) {
    for (int b = 1; b < 12; ++b) {
      EXPECT_GE(CeilDiv(a, b) * b, a);
      EXPECT_LT((CeilDiv(a, b) - 1) * b, a);
      EXPECT_EQ(RoundUp(a, b) % b, 0);
      EXPECT_EQ(RoundUp(a, b) / b, CeilDiv(a, b));
    }
  }
  EXPECT_EQ(CeilDiv(int64_t{1} << 40, 3), 366503875926);
}

TEST(Math, RoundsUpInDoublings) {
  int before = 4;
  for (int value = 5; value < 3000; ++value) {
    const int size = RoundUpInDoubling(value, 4);
    ASSERT_GE(size, value);
    ASSERT_LE(5 * (size - value), size) << value;  // a fifth
    ASSERT_EQ(RoundUpInDoubling(size, 4), size);
    ASSERT_TRUE(size == before || value == before + 1) << value;  // the least such size
    before = size;
  }
  int sizes = 0;
  for (int value = 17; value <= 32; ++value) sizes += RoundUpInDoubling(value, 4) == value;
  EXPECT_EQ(sizes, 4);  // 20, 24, 28, 32
  EXPECT_EQ(RoundUpInDoubling(int64_t{33}, int64_t{4}), 40);
}

}  // namespace
}  // namespace beamline::math_test
