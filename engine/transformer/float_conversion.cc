#include "engine/transformer/float_conversion.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/in_parts.h"
#include "kernels/float16.h"

namespace beamline {
namespace {

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

// Whether the magnitudes of all values are below `limit`; magnitudes are ordered like their bits.
// Processes blocks without branches, so that the compiler vectorises.
template <typename Bits>
bool AllBelow(const Bits* values, size_t count, Bits limit) {
  constexpr size_t kBlock = 4096;
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (size_t i = begin; i < end; ++i) {
      found |= static_cast<Bits>((values[i] & kMagnitude) >= limit ? 1 : 0);
    }
    if (found != 0) return false;
  }
  return true;
}

// NaN and infinity have at least these bits.
constexpr uint32_t kInfiniteFloat32 = 0x7f800000u;
constexpr uint16_t kInfiniteFloat16 = 0x7c00, kInfiniteBFloat16 = 0x7f80;
// The bits of 65520, and of the first bfloat16 above it.
constexpr uint32_t kBeyondFloat16 = 0x477ff000u;
constexpr uint16_t kBFloat16BeyondFloat16 = 0x4780;

bool AllBelow(const void* values, size_t count, DType dtype, uint32_t wide, uint16_t narrow) {
  BEAMLINE_CHECK(IsStoredFloat(dtype));
  // The first reader of a large tensor waits for page faults; several threads wait in parallel.
  constexpr size_t kPart = size_t{2} << 20;
  constexpr int kMostThreads = 8;
  std::atomic<bool> all = true;
  InParts(count, kPart, kMostThreads, [&](size_t begin, size_t end) {
    const bool below =
        dtype == DType::kFloat32
            ? AllBelow(static_cast<const uint32_t*>(values) + begin, end - begin, wide)
            : AllBelow(static_cast<const uint16_t*>(values) + begin, end - begin, narrow);
    if (!below) all = false;
  });
  return all;
}

}  // namespace

bool AllFinite(const void* values, size_t count, DType dtype) {
  return AllBelow(values, count, dtype, kInfiniteFloat32,
                  dtype == DType::kFloat16 ? kInfiniteFloat16 : kInfiniteBFloat16);
}

bool AllFitFloat16(const void* values, size_t count, DType dtype) {
  return dtype == DType::kFloat16 ||
         AllBelow(values, count, dtype, kBeyondFloat16, kBFloat16BeyondFloat16);
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

void AppendScaled(const void* values, size_t count, DType from, float factor, DType to,
                  std::vector<std::byte>& output) {
  if (factor == 1.0f) {
    AppendConverted(values, count, from, to, output);
    return;
  }
  std::vector<std::byte> wide;
  AppendConverted(values, count, from, DType::kFloat32, wide);
  auto* const floats = reinterpret_cast<float*>(wide.data());
  for (size_t i = 0; i < count; ++i) floats[i] *= factor;
  AppendConverted(floats, count, DType::kFloat32, to, output);
}

float RoundTo(float value, DType dtype) {
  std::vector<std::byte> rounded, widened;
  AppendConverted(&value, 1, DType::kFloat32, dtype, rounded);
  AppendConverted(rounded.data(), 1, dtype, DType::kFloat32, widened);
  std::memcpy(&value, widened.data(), sizeof(value));
  return value;
}

}  // namespace beamline
