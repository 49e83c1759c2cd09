#include "server/accept/receive_watch.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "server/accept/frame_watch.h"
#include "server/accept/peer_address.h"
#include "server/accept/rare_error.h"

namespace beamline {
namespace {

struct Watched {
  Watched(uint64_t own_inode, std::shared_ptr<ConnectionFlood> flood, ConnectionStats& own_stats)
      : inode(own_inode), stats(own_stats), frames(std::move(flood)) {}

  const uint64_t inode;  // what the number stands for may have been closed, and be another file now
  ConnectionStats& stats;
  FrameWatch frames;  // of the thread that receives; gRPC has one of a connection at a time
};

// By descriptor. Sockets that are closed stay until their number is used again.
struct Registry {
  std::shared_mutex mutex;
  absl::flat_hash_map<int, std::shared_ptr<Watched>> connections;  // guarded by mutex
  std::mutex log_mutex;
  RareError log;  // guarded by log_mutex
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

void End(int fd, Watched& watched) {
  Registry& registry = TheRegistry();
  watched.stats.Count(Refusal::kFlood);
  sockaddr_storage address{};
  socklen_t address_size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &address_size);
  {
    std::lock_guard lock(registry.log_mutex);
    registry.log.Log(fmt::format("ended a connection of {}: its client floods it with {}",
                                 AddressText(address), watched.frames.fault()));
  }
  // What it has sent meanwhile is dropped, and it is told so.
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(fd, &none, sizeof(none));
}

}  // namespace

void WatchReceived(int fd, uint64_t inode, std::shared_ptr<ConnectionFlood> flood,
                   ConnectionStats& stats) {
  Registry& registry = TheRegistry();
  std::unique_lock lock(registry.mutex);
  registry.connections.insert_or_assign(fd,
                                        std::make_shared<Watched>(inode, std::move(flood), stats));
}

}  // namespace beamline

// In place of the C library's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  using Receive = ssize_t (*)(int, msghdr*, int);
  static const auto receive = reinterpret_cast<Receive>(dlsym(RTLD_NEXT, "recvmsg"));
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
