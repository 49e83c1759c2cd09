// Returns unused memory to the system.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace beamline {

// glibc keeps freed memory that lies below memory in use: nearly all of it after a burst of calls,
// and forever. A thread checks from time to time whether the process has grown or much of its heap
// was freed. If so, it calls `return_others`, and returns the heap's unused memory if there is
// much. That takes some milliseconds, in which threads that allocate from the same arena wait. Page
// faults follow when the memory is needed again.
class MemoryTrim {
 public:
  struct Options {
    std::chrono::milliseconds interval{5000};  // between checks; memory is returned after two
    int64_t least_bytes = int64_t{8} << 20;    // unused, and grown or freed since the last return
    std::function<void()> return_others;  // returns memory that other objects keep; may be empty
  };
  MemoryTrim() : MemoryTrim(Options()) {}
  explicit MemoryTrim(const Options& options);
  ~MemoryTrim();

 private:
  void Run();
  // True if at least `least_bytes` were returned.
  bool Return();
  bool HasMuch() const;

  const Options options_;
  // As of the last return; used by the thread only.
  int64_t resident_ = 0;
  int64_t unused_ = 0;  // of the heap, in bytes
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

// Limits what malloc keeps: a few megabytes at the end of each arena, instead of as much as the
// largest freed piece. Large pieces are mapped one by one. With a limit of addresses (ulimit -v)
// there is one arena. Call first in main.
void LimitArenas();

// Resident memory of this process; 0 if it cannot be read.
int64_t ResidentBytes();

}  // namespace beamline
