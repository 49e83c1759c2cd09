// Preloaded into a program: its wall clock (CLOCK_REALTIME) is as many nanoseconds ahead of the
// system's as the first eight bytes of the file BEAMLINE_CLOCK_SHIFT say, which may change at any
// moment, as when somebody sets the clock. Other clocks are the system's.
//
// Waits until a moment of the wall clock are translated as they begin. What the kernel would do to
// a wait that has begun already when the clock is set is not shown.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

int64_t Shift() {
  static const volatile int64_t* const shift = [] {
    static const int64_t none = 0;
    const char* const path = getenv("BEAMLINE_CLOCK_SHIFT");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return &none;
    void* const mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return mapped == MAP_FAILED ? &none : static_cast<const int64_t*>(mapped);
  }();
  return *shift;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

timespec Plus(const timespec& time, int64_t nanoseconds) {
  const int64_t sum = time.tv_sec * kNanoseconds + time.tv_nsec + nanoseconds;
  return {.tv_sec = sum / kNanoseconds, .tv_nsec = sum % kNanoseconds};
}

// A moment of the wall clock as the kernel knows it; those of other clocks are in the first years
// after 1970.
timespec ToKernel(const timespec& time) {
  return time.tv_sec < kNanoseconds ? time : Plus(time, -Shift());
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto next = Next<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = Plus(*time, Shift());
  }
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* seconds) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != nullptr) *seconds = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static const auto next =
      Next<int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  const timespec translated = ToKernel(*until);
  return next(condition, mutex, &translated);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static const auto next = Next<int (*)(sem_t*, const timespec*)>("sem_timedwait");
  const timespec translated = ToKernel(*until);
  return next(semaphore, &translated);
}

// Abseil's mutexes wait by the system call itself.
long syscall(long number, ...) noexcept {
  static const auto next = Next<long (*)(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  timespec translated{};
  const auto* const until = reinterpret_cast<const timespec*>(arguments[3]);
  if (number == SYS_futex && (arguments[1] & FUTEX_CLOCK_REALTIME) != 0 && until != nullptr) {
    translated = ToKernel(*until);
    arguments[3] = reinterpret_cast<long>(&translated);
  }
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}

}  // extern "C"
