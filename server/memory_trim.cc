#include "server/memory_trim.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "spdlog/spdlog.h"

namespace beamline {

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
  // What is unused at one look alone is about to be used again.
  bool was_unused = false;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, options_.interval, [this] { return stopping_; })) return;
    }
    const bool is_unused = Look();
    if (was_unused && is_unused) {
      const int64_t before = ResidentBytes();
      malloc_trim(0);
      resident_ = ResidentBytes();
      spdlog::debug("returned {} bytes of memory that nothing used", before - resident_);
    }
    was_unused = is_unused;
  }
}

bool MemoryTrim::Look() const {
  // What was returned counts as free in the heap still, so that its bytes alone tell nothing.
  if (ResidentBytes() < resident_ + options_.least_bytes) return false;
  return static_cast<int64_t>(mallinfo2().fordblks) >= options_.least_bytes;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace beamline
