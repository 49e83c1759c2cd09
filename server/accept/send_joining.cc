#include "server/accept/send_joining.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>

#include "base/send_batch.h"

namespace beamline {
namespace {

std::atomic<bool> joins{false};

}  // namespace

void JoinSends() { joins.store(true, std::memory_order_relaxed); }

}  // namespace beamline

// In place of the C library's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message,
                                                                  int flags) {
  using Send = ssize_t (*)(int, const msghdr*, int);
  static const auto send = reinterpret_cast<Send>(dlsym(RTLD_NEXT, "sendmsg"));
  auto* const batch = beamline::SendBatch::OfThisThread();
  if (batch == nullptr || !beamline::joins.load(std::memory_order_relaxed)) {
    return send(fd, message, flags);
  }
  const ssize_t size = send(fd, message, flags | MSG_MORE);
  const int error = errno;
  batch->Add(fd);  // a part may have been taken before
  errno = error;
  return size;
}
