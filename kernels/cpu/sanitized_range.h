// Checks memory ranges of loops that are compiled without sanitizers. Does nothing in a build
// without a sanitizer.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* begin, unsigned long bytes);
extern "C" void __tsan_write_range(void* begin, unsigned long bytes);
#endif

namespace beamline::cpu {

// Checks reads of memory that no thread writes any more. An invalid byte ends the program with the
// address sanitizer's report.
inline void SanitizeBounds([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  void* fault = __asan_region_is_poisoned(const_cast<void*>(begin), bytes);
  if (fault != nullptr) (void)*static_cast<const volatile char*>(fault);
#endif
}

// Checks reads, for the thread sanitizer too.
inline void SanitizeRead([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
  SanitizeBounds(begin, bytes);
#if defined(__SANITIZE_THREAD__)
  __tsan_read_range(const_cast<void*>(begin), bytes);
#endif
}

// Checks writes.
inline void SanitizeWrite([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
  SanitizeBounds(begin, bytes);
#if defined(__SANITIZE_THREAD__)
  __tsan_write_range(begin, bytes);
#endif
}

}  // namespace beamline::cpu
