#include "base/process_room.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "fmt/format.h"

namespace beamline {

absl::Status CheckThreadRoom(int num_threads) {
  std::vector<std::thread> threads;
  std::atomic<bool> ending = false;
  try {
    while (static_cast<int>(threads.size()) < num_threads) {
      threads.emplace_back([&ending] { ending.wait(false); });
    }
  } catch (const std::system_error&) {
  }
  const auto num_started = static_cast<int>(threads.size());
  ending = true;
  ending.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (num_started == num_threads) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("the limit of threads (ulimit -u, or pids of a control group) leaves room for {} "
                  "more; needed: {}",
                  num_started, num_threads));
}

absl::Status CheckDescriptorRoom(int num_descriptors) {
  std::vector<int> opened;
  while (static_cast<int>(opened.size()) < num_descriptors) {
    const int one = eventfd(0, EFD_CLOEXEC);
    if (one < 0) break;
    opened.push_back(one);
  }
  for (const int one : opened) close(one);
  const auto num_opened = static_cast<int>(opened.size());
  if (num_opened == num_descriptors) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("the limit of open files (ulimit -n) leaves room for {} more; needed: {}",
                  num_opened, num_descriptors));
}

absl::Status CheckAddressRoom(int num_threads, int64_t bytes) {
  size_t stack = 0;
  pthread_attr_t defaults;
  if (pthread_attr_init(&defaults) == 0) {
    pthread_attr_getstacksize(&defaults, &stack);
    pthread_attr_destroy(&defaults);
  }
  const size_t needed = static_cast<size_t>(num_threads) * stack + static_cast<size_t>(bytes);
  // Reserves addresses without using memory.
  void* const taken =
      mmap(nullptr, needed, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken != MAP_FAILED) {
    munmap(taken, needed);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(fmt::format(
      "the limit of address space (ulimit -v) leaves no room for {} bytes more, which {} threads "
      "and their memory take",
      needed, num_threads));
}

}  // namespace beamline
