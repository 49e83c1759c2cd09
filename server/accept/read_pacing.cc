#include "server/accept/read_pacing.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "server/accept/poll_turns.h"

namespace beamline {
namespace {

using Clock = ReadPace::Clock;

// Of a thread's own at the scheduler: the shortest that it takes, about what a burst needs.
constexpr uint64_t kSliceNs = 100'000;
constexpr uint64_t kDefaultSlice = 0;

// As sched_setattr(2) has it, which not every C library declares.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};

// Kernels that know no such slices take no notice; where it is forbidden nothing changes.
void SetSlice(uint64_t slice_ns) {
  SchedulingAttributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.runtime_ns = slice_ns;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

struct Reader {
  bool hurries = false;
  Clock::time_point until;
};

constinit thread_local Reader reader;
constinit ReadPace pace;

// Before the thread waits for what comes.
void BeforeLook() {
  const Clock::time_point now = Clock::now();
  if (now >= reader.until) {
    reader.hurries = false;
    SetSlice(kDefaultSlice);
    return;
  }
  if (const Clock::duration wait = pace.Wait(now); wait > Clock::duration::zero()) {
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace

void HurryReads(Clock::time_point now) {
  reader.until = now + kHurries;
  if (reader.hurries) return;
  reader.hurries = true;
  EndLonePolling();
  SetSlice(kSliceNs);
}

void PaceReads(Clock::time_point now) {
  HurryReads(now);
  pace.Extend(now);
}

}  // namespace beamline

// In place of the C library's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) int epoll_wait(int fd, epoll_event* events,
                                                                 int most, int timeout_ms) {
  using Wait = int (*)(int, epoll_event*, int, int);
  static const auto wait = reinterpret_cast<Wait>(dlsym(RTLD_NEXT, "epoll_wait"));
  const bool hurries = beamline::reader.hurries;
  if (hurries && timeout_ms != 0) beamline::BeforeLook();
  if (!hurries) return beamline::WaitForEvents(wait, fd, events, most, timeout_ms);
  const int num_events = wait(fd, events, most, timeout_ms);
  if (num_events > 0) beamline::pace.Look(beamline::Clock::now());
  return num_events;
}
