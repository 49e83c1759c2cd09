// Wakes a sleeping thread with one system call on each side. A condition variable needs two more,
// because the waking thread takes a mutex that others may have to wait for. std::atomic::wait and
// std::counting_semaphore yield the core before they sleep; on a busy machine that takes longer
// than the sleep.
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

  // Lets one Acquire return, now or later.
  void Release() { BEAMLINE_CHECK(sem_post(&semaphore_) == 0); }
  // Acquires without waiting; false if it cannot.
  bool TryAcquire() { return sem_trywait(&semaphore_) == 0; }
  void Acquire() {
    while (sem_wait(&semaphore_) != 0) BEAMLINE_CHECK(errno == EINTR);
  }

 private:
  sem_t semaphore_;
};

}  // namespace beamline
