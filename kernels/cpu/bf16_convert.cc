#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bf16_convert.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "kernels/cpu/bf16_convert.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

void Convert(const float* from, size_t count, uint16_t* to) {
  const hn::RebindToUnsigned<F32> u32;
  const hn::Rebind<uint16_t, F32> u16;
  const size_t lanes = NumLanes();
  const auto round = [&](VF x) HWY_ATTR {
    const auto bits = hn::BitCast(u32, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff)));
    // Rounding could turn a NaN into infinity, so a NaN becomes a quiet NaN.
    const auto is_number = hn::RebindMask(u32, hn::Eq(x, x));
    const auto kept = hn::IfThenElse(is_number, rounded, hn::Set(u32, 0x7fc00000));
    return hn::ShiftRight<16>(kept);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::TruncateTo(u16, round(hn::LoadU(kF32, from + i))), u16, to + i);
  }
  if (i == count) return;
  HWY_ALIGN uint16_t rest[hn::MaxLanes(F32())];
  hn::Store(hn::TruncateTo(u16, round(LoadFirst(from + i, count - i))), u16, rest);
  std::memcpy(to + i, rest, (count - i) * sizeof(uint16_t));
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {
HWY_EXPORT(Convert);
}  // namespace

void ConvertToBFloat16(const float* from, size_t count, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(Convert)(from, count, to);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
