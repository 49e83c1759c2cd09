// Whether this is a build with a sanitizer, which takes some twenty times as long: the longer tests
// do less there.
#pragma once

namespace beamline {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace beamline
