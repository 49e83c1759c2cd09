#include "server/memory_trim.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// Of malloc's, what nobody has; returned pieces among it.
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
  // What is there at one look alone is about to be used, or freed.
  bool had_much = false;
  // Looks until the return is made once more: the first may have come in the middle of a burst,
  // whose last small pieces hold pages of which they take little.
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

// What was returned counts as unused in the heap still: taken into use again, it shows as growth.
// What was in use at the last return, in the middle of a burst, and was freed since, shows as
// unused alone.
bool MemoryTrim::HasMuch() const {
  return ResidentBytes() >= resident_ + options_.least_bytes ||
         UnusedHeapBytes() >= unused_ + options_.least_bytes;
}

void LimitArenas() {
  // Either also ends malloc's own choice, which grows to 32 and 64 MiB, an arena.
  constexpr int kLargePiece = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargePiece);
  mallopt(M_TRIM_THRESHOLD, 2 * kLargePiece);
  // An arena takes 64 MiB of addresses, of which threads take one each: under a limit of them
  // (ulimit -v) there would be none left for the last threads' stacks.
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
