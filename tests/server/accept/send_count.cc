#include "tests/server/accept/send_count.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>

namespace beamline {
namespace {

thread_local int of_this_thread = 0;
std::atomic<int> of_all_threads = 0;

}  // namespace

int SendsOfThisThread() { return of_this_thread; }

int SendsOfAllThreads() { return of_all_threads; }

}  // namespace beamline

// In place of the C library's.
extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message,
                                                                  int flags) {
  using Send = ssize_t (*)(int, const msghdr*, int);
  static const auto send = reinterpret_cast<Send>(dlsym(RTLD_NEXT, "sendmsg"));
  ++beamline::of_this_thread;
  ++beamline::of_all_threads;
  return send(fd, message, flags);
}
