// As a limit of threads (ulimit -u, pids of a control group) has it, which root has not: while it
// lives this process starts `most` more threads, and is refused others. pthread_create is the
// test's own, for all libraries.
#pragma once

namespace beamline {

class ThreadLimit {
 public:
  explicit ThreadLimit(int most);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace beamline
