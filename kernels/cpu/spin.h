// Waiting for another thread that is about to be done.
#pragma once

#include <chrono>

namespace beamline::cpu {

// A thread that finds nothing to do spins this long before it sleeps: longer than the serial code
// between two operators, much shorter than a scheduler's time slice.
inline constexpr std::chrono::microseconds kSpinTime(50);

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or kSpinTime have passed; returns done().
template <typename Done>
bool SpinUntil(Done done) {
  constexpr int kPausesPerClockRead = 64;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

}  // namespace beamline::cpu
