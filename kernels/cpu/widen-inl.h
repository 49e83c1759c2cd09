// Converts 16-bit numbers to vectors of float32, for files compiled once per target (simd-inl.h).
#if defined(BEAMLINE_KERNELS_CPU_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEAMLINE_KERNELS_CPU_WIDEN_INL_H_
#undef BEAMLINE_KERNELS_CPU_WIDEN_INL_H_
#else
#define BEAMLINE_KERNELS_CPU_WIDEN_INL_H_
#endif

#include "kernels/cpu/simd-inl.h"
#include "kernels/float16.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

// Numbers as stored in memory.
struct StoredFloat32 {
  float value;
  static StoredFloat32 From(float value) { return {value}; }
  float Wide() const { return value; }
};
struct StoredBFloat16 {
  uint16_t bits;
  static StoredBFloat16 From(float value) { return {ToBFloat16(value)}; }
  float Wide() const { return FromBFloat16(bits); }
};
struct StoredFloat16 {
  uint16_t bits;
  static StoredFloat16 From(float value) { return {ToFloat16(value)}; }
  float Wide() const { return FromFloat16(bits); }
};

struct StoredInt8 {
  int8_t code;
};

// Loads one vector from memory that is aligned to its elements only.
HWY_INLINE VF LoadWide(const StoredFloat32* from) { return hn::LoadU(kF32, &from->value); }
HWY_INLINE VF LoadWide(const StoredBFloat16* from) {
  const hn::Rebind<uint16_t, F32> u16;
  const hn::RebindToUnsigned<F32> u32;
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, &from->bits))));
}
HWY_INLINE VF LoadWide(const StoredInt8* from) {
  const hn::Rebind<int8_t, F32> i8;
  const hn::RebindToSigned<F32> i32;
  return hn::ConvertTo(kF32, hn::PromoteTo(i32, hn::LoadU(i8, &from->code)));
}
HWY_INLINE VF LoadWide(const StoredFloat16* from) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
  const hn::Rebind<hwy::float16_t, F32> f16;
  return hn::PromoteTo(kF32, hn::LoadU(f16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  // A float16's bits in the position of a float32's give a number 2^112 too small, also for
  // subnormals.
  const hn::Rebind<uint16_t, F32> u16;
  const hn::RebindToUnsigned<F32> u32;
  const auto bits = hn::PromoteTo(u32, hn::LoadU(u16, &from->bits));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u32, 0x7fff)));
  const auto number =
      hn::BitCast(u32, hn::Mul(hn::BitCast(kF32, magnitude), hn::Set(kF32, 0x1p112f)));
  const auto special = hn::Or(magnitude, hn::Set(u32, 0x7f800000));
  const auto is_special = hn::Gt(magnitude, hn::Set(u32, (0x7c00u << 13) - 1));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u32, 0x8000)));
  return hn::BitCast(kF32, hn::Or(sign, hn::IfThenElse(is_special, special, number)));
#endif
}

// to[i] = from[i] for i < size.
template <typename Stored>
HWY_INLINE void WidenRow(const Stored* from, int64_t size, float* to) {
  const auto lanes = static_cast<int64_t>(NumLanes());
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) hn::StoreU(LoadWide(from + i), kF32, to + i);
  for (; i < size; ++i) to[i] = from[i].Wide();
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BEAMLINE_KERNELS_CPU_WIDEN_INL_H_
