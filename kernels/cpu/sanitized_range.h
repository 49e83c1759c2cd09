// For loops that are compiled without the sanitizers: what they are about to touch, checked as a
// whole. Nothing in a build without a sanitizer.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* begin, unsigned long bytes);
extern "C" void __tsan_write_range(void* begin, unsigned long bytes);
#endif

namespace beamline::cpu {

// Reads of what no thread writes any more: ends the program with the address sanitizer's report
// where one of these bytes is not the program's.
inline void SanitizeBounds([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  void* fault = __asan_region_is_poisoned(const_cast<void*>(begin), bytes);
  if (fault != nullptr) (void)*static_cast<const volatile char*>(fault);
#endif
}

// Reads, for the thread sanitizer too.
inline void SanitizeRead([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
  SanitizeBounds(begin, bytes);
#if defined(__SANITIZE_THREAD__)
  __tsan_read_range(const_cast<void*>(begin), bytes);
#endif
}

// Writes.
inline void SanitizeWrite([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
  SanitizeBounds(begin, bytes);
#if defined(__SANITIZE_THREAD__)
  __tsan_write_range(begin, bytes);
#endif
}

}  // namespace beamline::cpu
