// BEAMLINE_CHECK stops the process on a programmer error, in release builds too. Input errors are
// reported as absl::Status instead.
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
