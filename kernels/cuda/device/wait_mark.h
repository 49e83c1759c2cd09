// Shows other threads whether the device's thread is in a call that may wait for the GPU, and
// whether it is still in the same call.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline::cuda {

// One thread at a time writes; any thread may read.
class WaitMark {
 public:
  // While a Scope exists, the calling thread may wait for the GPU.
  class Scope {
   public:
    explicit Scope(WaitMark& mark) : mark_(mark) { mark_.Change(+1); }
    ~Scope() { mark_.Change(-1); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WaitMark& mark_;
  };

  bool is_set() const { return depth_.load(std::memory_order_relaxed) > 0; }
  // Changes whenever a call starts or ends.
  uint64_t num_changes() const { return num_changes_.load(std::memory_order_relaxed); }

 private:
  // Loads and stores, which cost less than read-modify-write: there is one writer.
  void Change(int32_t by) {
    depth_.store(depth_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    num_changes_.store(num_changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::atomic<int32_t> depth_ = 0;
  std::atomic<uint64_t> num_changes_ = 0;
};

}  // namespace beamline::cuda
