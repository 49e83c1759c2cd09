// Gives memory that nobody uses back to the system.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace beamline {

// glibc keeps what is freed below memory that is still in use, which after a burst of calls is
// nearly all of it, for ever. Looks at times, on a thread of its own, whether the process has
// grown or much of its heap was freed, and has others return what they keep and do not need; and
// where much of its heap lies unused, returns that: some milliseconds in which those wait who
// allocate of the same arena, and page faults when it is needed again.
class MemoryTrim {
 public:
  struct Options {
    std::chrono::milliseconds interval{5000};  // between looks; it takes two to be returned
    int64_t least_bytes = int64_t{8} << 20;    // unused, and grown or freed since
    std::function<void()> return_others;       // what others keep; may be empty
  };
  MemoryTrim() : MemoryTrim(Options()) {}
  explicit MemoryTrim(const Options& options);
  ~MemoryTrim();

 private:
  void Run();
  // Whether that gave much back.
  bool Return();
  bool HasMuch() const;

  const Options options_;
  // After the last return; of the thread alone.
  int64_t resident_ = 0;
  int64_t unused_ = 0;  // of the heap
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

// Has malloc keep no more than a few megabytes for each of its arenas when what lay before their
// end is freed, instead of what the largest freed piece was, and take large pieces from the system
// one by one. Where addresses are limited (ulimit -v) there is one arena. To be called first in
// main.
void LimitArenas();

// Of this process; 0 where the system does not tell.
int64_t ResidentBytes();

}  // namespace beamline
