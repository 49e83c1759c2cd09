// Working memory of one thread. It grows to the largest call's need and stays, so operators do not
// allocate after warm-up.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/math.h"

namespace beamline::cpu {

inline constexpr size_t kCacheLineBytes = 64;

struct AlignedDelete {
  void operator()(std::byte* memory) const {
    ::operator delete(memory, std::align_val_t(kCacheLineBytes));
  }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

inline AlignedBytes AllocateAligned(size_t bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kCacheLineBytes))));
}

class Scratch {
 public:
  // Releases everything taken since the last Reset, and makes room for `bytes`.
  void Reset(size_t bytes) {
    used_ = 0;
    if (bytes <= capacity_) return;
    memory_ = AllocateAligned(bytes);
    capacity_ = bytes;
  }

  // Uninitialised memory for `count` objects, aligned to a cache line, valid until the next Reset.
  // REQUIRES: the sum of BytesFor(count) since Reset is at most its `bytes`.
  template <typename T>
  T* Take(size_t count) {
    T* taken = reinterpret_cast<T*>(memory_.get() + used_);
    used_ += BytesFor<T>(count);
    return taken;
  }

  // The bytes that Take<T>(count) uses.
  template <typename T>
  static constexpr size_t BytesFor(size_t count) {
    return RoundUp(count * sizeof(T), kCacheLineBytes);
  }

 private:
  AlignedBytes memory_;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

}  // namespace beamline::cpu
