#include "engine/transformer/float_conversion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace beamline {
namespace {

float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals
    return std::copysign(static_cast<float>(mantissa) * 0x1p-24f, std::bit_cast<float>(sign));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

uint16_t ToFloat16(float value) {
  const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 16) & 0x8000u;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x1p-14f) {  // the result counts units of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const uint32_t rebased = std::bit_cast<uint32_t>(magnitude) - (112u << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

float Load(const void* values, size_t i, DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return FromBFloat16(static_cast<const uint16_t*>(values)[i]);
    case DType::kFloat16:
      return FromFloat16(static_cast<const uint16_t*>(values)[i]);
    default:
      return static_cast<const float*>(values)[i];
  }
}

void Store(float value, DType dtype, std::byte* output) {
  if (dtype == DType::kFloat32) {
    std::memcpy(output, &value, sizeof(value));
    return;
  }
  const uint16_t bits = dtype == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
  std::memcpy(output, &bits, sizeof(bits));
}

// NaN and infinity are what has every bit of the exponent set. Blocks without a branch, which the
// compiler vectorises.
template <typename Bits>
bool NoneHasExponent(const Bits* values, size_t count, Bits exponent) {
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (size_t i = begin; i < end; ++i) {
      found |= static_cast<Bits>((values[i] & exponent) == exponent ? 1 : 0);
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace

bool AllFinite(const void* values, size_t count, DType dtype) {
  BEAMLINE_CHECK(IsStoredFloat(dtype));
  if (dtype == DType::kFloat32) {
    return NoneHasExponent<uint32_t>(static_cast<const uint32_t*>(values), count, 0x7f800000u);
  }
  const auto exponent = static_cast<uint16_t>(dtype == DType::kFloat16 ? 0x7c00 : 0x7f80);
  return NoneHasExponent<uint16_t>(static_cast<const uint16_t*>(values), count, exponent);
}

bool IsStoredFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

void AppendConverted(const void* values, size_t count, DType from, DType to,
                     std::vector<std::byte>& output) {
  BEAMLINE_CHECK(IsStoredFloat(from) && IsStoredFloat(to));
  const size_t begin = output.size();
  output.resize(begin + count * SizeOf(to));
  std::byte* cursor = output.data() + begin;
  if (from == to) {
    if (count > 0) std::memcpy(cursor, values, count * SizeOf(to));
    return;
  }
  for (size_t i = 0; i < count; ++i, cursor += SizeOf(to)) Store(Load(values, i, from), to, cursor);
}

float RoundTo(float value, DType dtype) {
  std::vector<std::byte> rounded, widened;
  AppendConverted(&value, 1, DType::kFloat32, dtype, rounded);
  AppendConverted(rounded.data(), 1, dtype, DType::kFloat32, widened);
  std::memcpy(&value, widened.data(), sizeof(value));
  return value;
}

}  // namespace beamline
