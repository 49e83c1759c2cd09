// How a thread that sleeps is woken: one system call on each side. A condition variable takes two
// more, as whoever wakes takes its mutex in a way that others may have to wait;
// std::atomic::wait and std::counting_semaphore give the core away before they sleep, which on a
// busy machine takes longer than the sleep.
#pragma once

#include <semaphore.h>

#include <cerrno>

#include "base/check.h"

namespace beamline {

class Semaphore {
 public:
  Semaphore() { BEAMLINE_CHECK(sem_init(&semaphore_, /*pshared=*/0, /*value=*/0) == 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // One Acquire returns, of now or later.
  void Release() { BEAMLINE_CHECK(sem_post(&semaphore_) == 0); }
  // Acquires at once, or not at all.
  bool TryAcquire() { return sem_trywait(&semaphore_) == 0; }
  void Acquire() {
    while (sem_wait(&semaphore_) != 0) BEAMLINE_CHECK(errno == EINTR);
  }

 private:
  sem_t semaphore_;
};

}  // namespace beamline
