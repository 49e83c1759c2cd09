#include "server/guard/receive_watch.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/guard/frame_watch.h"
#include "server/guard/next_function.h"

namespace beamline {
namespace {

struct Watched {
  Watched(ino_t own_inode, std::shared_ptr<ConnectionFlood> own_flood)
      : inode(own_inode), flood(std::move(own_flood)), frames(flood) {}

  const ino_t inode;  // what the number stands for may have been closed, and be another file now
  const std::shared_ptr<ConnectionFlood> flood;
  FrameWatch frames;  // of the thread that receives; gRPC has one of a connection at a time
};

// By descriptor. Sockets that are closed stay until their number is used again.
struct Registry {
  std::shared_mutex mutex;
  absl::flat_hash_map<int, std::shared_ptr<Watched>> connections;  // guarded by mutex
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;  // until the last thread has ended
  return *registry;
}

std::shared_ptr<Watched> Find(int fd) {
  Registry& registry = TheRegistry();
  std::shared_ptr<Watched> found;
  {
    std::shared_lock lock(registry.mutex);
    const auto it = registry.connections.find(fd);
    if (it == registry.connections.end()) return nullptr;
    found = it->second;
  }
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_ino == found->inode ? found : nullptr;
}

// False when the connection is to end.
bool Follow(FrameWatch& frames, const msghdr& message, size_t size) {
  const auto now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const size_t part = std::min(size, message.msg_iov[i].iov_len);
    if (!frames.Follow({static_cast<const char*>(message.msg_iov[i].iov_base), part}, now)) {
      return false;
    }
    size -= part;
  }
  return true;
}

void End(int fd, const Watched& watched) {
  watched.flood->Report(watched.frames.fault());
  // What it has sent meanwhile is dropped, and it is told so.
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(fd, &none, sizeof(none));
}

}  // namespace

void WatchReceived(int fd, std::shared_ptr<ConnectionFlood> flood) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return;
  Registry& registry = TheRegistry();
  std::unique_lock lock(registry.mutex);
  registry.connections.insert_or_assign(fd,
                                        std::make_shared<Watched>(status.st_ino, std::move(flood)));
}

}  // namespace beamline

// In place of the C library's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  using Receive = ssize_t (*)(int, msghdr*, int);
  static const auto receive = beamline::NextFunction<Receive>("recvmsg");
  const ssize_t size = receive(fd, message, flags);
  if (size <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  const int error = errno;
  const auto watched = beamline::Find(fd);
  if (watched != nullptr &&
      !beamline::Follow(watched->frames, *message, static_cast<size_t>(size))) {
    beamline::End(fd, *watched);
    errno = ECONNRESET;
    return -1;
  }
  errno = error;
  return size;
}
