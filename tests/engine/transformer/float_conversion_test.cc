#include "engine/transformer/float_conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace beamline::float_conversion_test {
namespace {

template <typename To, typename From>
To Convert(From value, DType from, DType to) {
  std::vector<std::byte> bytes;
  AppendConverted(&value, 1, from, to, bytes);
  EXPECT_EQ(bytes.size(), sizeof(To));
  To result;
  std::memcpy(&result, bytes.data(), sizeof(To));
  return result;
}

float FromHalf(uint16_t bits) { return Convert<float>(bits, DType::kFloat16, DType::kFloat32); }
uint16_t ToHalf(float value) { return Convert<uint16_t>(value, DType::kFloat32, DType::kFloat16); }
uint16_t ToBFloat16(float value) {
  return Convert<uint16_t>(value, DType::kFloat32, DType::kBFloat16);
}

TEST(FloatConversionTest, Float16ValuesAreKnown) {
  EXPECT_EQ(FromHalf(0x3c00), 1.0f);
  EXPECT_EQ(FromHalf(0xc500), -5.0f);
  EXPECT_EQ(FromHalf(0x7bff), 65504.0f);
  EXPECT_EQ(FromHalf(0x0001), 0x1p-24f);
  EXPECT_EQ(FromHalf(0x83ff), -1023 * 0x1p-24f);
  EXPECT_TRUE(std::signbit(FromHalf(0x8000)));
  EXPECT_EQ(FromHalf(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(FromHalf(0x7e00)));
}

TEST(FloatConversionTest, EveryFloat16SurvivesTheWayThroughFloat32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromHalf(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(ToHalf(value), bits);
  }
}

TEST(FloatConversionTest, RoundsToNearestEven) {
  EXPECT_EQ(ToHalf(1.0f + 0x1p-11f), 0x3c00);             // halfway, down to even
  EXPECT_EQ(ToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);         // halfway, up to even
  EXPECT_EQ(ToHalf(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above halfway
  EXPECT_EQ(ToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(ToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(ToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(ToHalf(0x1.8p-24f), 0x0002);
  EXPECT_EQ(ToHalf(0x1p-14f - 0x1p-30f), 0x0400);  // a subnormal that rounds to a normal
  EXPECT_EQ(ToBFloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(ToBFloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(ToBFloat16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(
      static_cast<uint32_t>(ToBFloat16(std::numeric_limits<float>::quiet_NaN())) << 16)));
}

TEST(FloatConversionTest, FindsWhatIsNotFinite) {
  constexpr size_t kCount = 10000;  // of more than one block, not a multiple of a vector
  std::vector<float> floats(kCount, std::numeric_limits<float>::max());
  std::vector<uint16_t> halves(kCount, 0xfbff), brains(kCount, 0x7f7f);
  EXPECT_TRUE(AllFinite(floats.data(), kCount, DType::kFloat32));
  EXPECT_TRUE(AllFinite(halves.data(), kCount, DType::kFloat16));
  EXPECT_TRUE(AllFinite(brains.data(), kCount, DType::kBFloat16));
  EXPECT_TRUE(AllFinite(nullptr, 0, DType::kBFloat16));
  for (const size_t place : {size_t{0}, kCount / 2, kCount - 1}) {
    for (const uint16_t bits : {0x7c00, 0xfc00, 0x7e01}) {
      std::vector<uint16_t> bad = halves;
      bad[place] = bits;
      EXPECT_FALSE(AllFinite(bad.data(), kCount, DType::kFloat16));
    }
    std::vector<uint16_t> bad = brains;
    bad[place] = 0xff80;
    EXPECT_FALSE(AllFinite(bad.data(), kCount, DType::kBFloat16));
    std::vector<float> bad_floats = floats;
    bad_floats[place] = std::numeric_limits<float>::signaling_NaN();
    EXPECT_FALSE(AllFinite(bad_floats.data(), kCount, DType::kFloat32));
  }
}

TEST(FloatConversionTest, AppendsWithoutConversion) {
  const float values[] = {1.5f, -2.25f};
  std::vector<std::byte> bytes(4);
  AppendConverted(values, 2, DType::kFloat32, DType::kFloat32, bytes);
  ASSERT_EQ(bytes.size(), 12u);
  EXPECT_EQ(std::memcmp(bytes.data() + 4, values, 8), 0);
}

TEST(FloatConversionTest, TellsWhatFloat16CannotHold) {
  for (const float sign : {1.0f, -1.0f}) {
    const float fits = sign * 65519.996f, beyond = sign * 65520.0f;
    EXPECT_TRUE(AllFitFloat16(&fits, 1, DType::kFloat32));
    EXPECT_FALSE(AllFitFloat16(&beyond, 1, DType::kFloat32));
    const uint16_t brain_fits = ToBFloat16(sign * 65280.0f),
                   brain_beyond = ToBFloat16(sign * 65536.0f);
    EXPECT_TRUE(AllFitFloat16(&brain_fits, 1, DType::kBFloat16));
    EXPECT_FALSE(AllFitFloat16(&brain_beyond, 1, DType::kBFloat16));
  }
  const uint16_t half = 0x7bff;
  EXPECT_TRUE(AllFitFloat16(&half, 1, DType::kFloat16));
}

}  // namespace
}  // namespace beamline::float_conversion_test
