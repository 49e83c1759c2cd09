// Prefetches memory into the L2 cache before it is read or written.
#pragma once

#include <cstdint>

#include "kernels/cpu/scratch.h"

namespace beamline::cpu {

// Prefetches the cache lines at begin, begin + step, ..., below begin + `bytes`.
inline void FetchLines(const void* begin, int64_t bytes, int64_t step = kCacheLineBytes) {
  constexpr int kSecondLevel = 2;  // locality argument of __builtin_prefetch
  const auto* const first = static_cast<const char*>(begin);
  for (int64_t i = 0; i < bytes; i += step) __builtin_prefetch(first + i, /*rw=*/0, kSecondLevel);
  // GCC treats a function with only prefetches as one without effect, and removes its calls.
  asm volatile("");
}

}  // namespace beamline::cpu
