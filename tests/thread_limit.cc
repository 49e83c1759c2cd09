#include "tests/thread_limit.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace beamline {
namespace {

std::atomic<int> left = std::numeric_limits<int>::max();

}  // namespace

ThreadLimit::ThreadLimit(int most) { left = most; }

ThreadLimit::~ThreadLimit() { left = std::numeric_limits<int>::max(); }

}  // namespace beamline

// In place of the C library's.
extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
    void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (beamline::left-- <= 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}
