#include "kernels/philox.h"

#include "gtest/gtest.h"

namespace beamline::philox_test {
namespace {

// The known answers of Random123's kat_vectors for philox4x32-10.
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, DrawsDependOnEveryArgument) {
  const double draw = UniformDraw(1, 2, 3);
  EXPECT_EQ(draw, UniformDraw(1, 2, 3));
  EXPECT_NE(draw, UniformDraw(2, 2, 3));
  EXPECT_NE(draw, UniformDraw(1 + (uint64_t{1} << 32), 2, 3));
  EXPECT_NE(draw, UniformDraw(1, 3, 3));
  EXPECT_NE(draw, UniformDraw(1, 2, 4));
}

TEST(PhiloxTest, DrawsAreUniform) {
  double sum = 0;
  const int num_draws = 20000;
  for (int i = 0; i < num_draws; ++i) {
    const double draw = UniformDraw(7, 0, i);
    ASSERT_GE(draw, 0);
    ASSERT_LT(draw, 1);
    sum += draw;
  }
  EXPECT_NEAR(sum / num_draws, 0.5, 0.01);
}

}  // namespace
}  // namespace beamline::philox_test
