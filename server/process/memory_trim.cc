#include "server/process/memory_trim.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// Free bytes of malloc's heap, including those returned to the system.
int64_t UnusedHeapBytes() { return static_cast<int64_t>(mallinfo2().fordblks); }

}  // namespace

MemoryTrim::MemoryTrim(const Options& options) : options_(options), thread_([this] { Run(); }) {}

MemoryTrim::~MemoryTrim() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MemoryTrim::Run() {
  // Memory that one check alone finds may be about to be used or freed.
  bool had_much = false;
  // Checks left until memory is returned once more. The first return may come in the middle of a
  // burst, whose last small pieces keep whole pages in use.
  int looks_left = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, options_.interval, [this] { return stopping_; })) return;
    }
    const bool has_much = HasMuch();
    if (had_much && has_much) {
      Return();
      looks_left = 2;
    } else if (looks_left > 0 && --looks_left == 0 && Return()) {
      looks_left = 2;
    }
    had_much = has_much;
  }
}

bool MemoryTrim::Return() {
  const int64_t before = ResidentBytes();
  if (options_.return_others) options_.return_others();
  if (UnusedHeapBytes() >= options_.least_bytes) malloc_trim(0);
  resident_ = ResidentBytes();
  unused_ = UnusedHeapBytes();
  spdlog::debug("returned {} bytes of memory that nothing used", before - resident_);
  return before - resident_ >= options_.least_bytes;
}

// Returned memory still counts as unused in the heap; when it is used again, the process grows.
// Memory that was in use at the last return and was freed since shows only as unused.
bool MemoryTrim::HasMuch() const {
  return ResidentBytes() >= resident_ + options_.least_bytes ||
         UnusedHeapBytes() >= unused_ + options_.least_bytes;
}

void LimitArenas() {
  // Setting either also stops malloc from adapting both, up to 32 and 64 MiB an arena.
  constexpr int kLargePiece = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargePiece);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargePiece);
  // Each thread may get an arena, of 64 MiB of addresses. Under a limit of addresses (ulimit -v)
  // none would be left for the stacks of the last threads.
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
    mallopt(M_ARENA_MAX, 1);
  }
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace beamline
