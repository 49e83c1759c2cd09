// Fetching memory into the second-level cache before it is read or written.
#pragma once

#include <cstdint>

#include "kernels/cpu/scratch.h"

namespace beamline::cpu {

// The cache lines at begin, begin + step, ... that are less than `bytes` behind it.
inline void FetchLines(const void* begin, int64_t bytes, int64_t step = kCacheLineBytes) {
  constexpr int kSecondLevel = 2;  // of __builtin_prefetch's localities
  const auto* const first = static_cast<const char*>(begin);
  for (int64_t i = 0; i < bytes; i += step) __builtin_prefetch(first + i, /*rw=*/0, kSecondLevel);
  // GCC takes a function that does nothing else for one without effect, and leaves its calls out.
  asm volatile("");
}

}  // namespace beamline::cpu
