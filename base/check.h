// BEAMLINE_CHECK: a programmer error stops the process, in release builds too. Input errors are
// absl::Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace beamline::internal {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace beamline::internal

#define BEAMLINE_CHECK(condition)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::beamline::internal::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
