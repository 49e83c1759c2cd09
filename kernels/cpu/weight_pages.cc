#include "kernels/cpu/weight_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "base/math.h"
#include "kernels/cpu/return_pages.h"
#include "kernels/cpu/scratch.h"

namespace beamline::cpu {
namespace {

constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;  // of x86-64 and most Arm systems
constexpr size_t kChunkBytes = size_t{32} << 20;
// As large as this a piece is a mapping of its own, whose end is on small pages: nothing is unused.
constexpr size_t kOwnMappingBytes = size_t{8} << 20;
constexpr size_t kMostBytes = size_t{1} << 60;

// Pieces side by side would hide from the sanitizer who reads past the end of one.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAlone = true;
#else
constexpr bool kAlone = false;
#endif

// Memory that begins at a huge page.
SharedBytes Map(size_t bytes) {
  static const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > kMostBytes) throw std::bad_alloc();
  bytes = RoundUp(bytes, page_bytes);
  const size_t room = bytes + kHugePageBytes;
  void* const mapped =
      mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const size_t skipped = RoundUp(address, kHugePageBytes) - address;
  if (skipped > 0) munmap(begin, skipped);
  munmap(begin + skipped + bytes, room - skipped - bytes);
  // A system without huge pages gives small ones.
  madvise(begin + skipped, bytes, MADV_HUGEPAGE);
  return SharedBytes(begin + skipped, [bytes](std::byte* memory) { munmap(memory, bytes); });
}

}  // namespace

SharedBytes WeightPages::Allocate(size_t bytes) {
  if (kAlone) {
    AlignedBytes piece = AllocateAligned(bytes);
    std::memset(piece.get(), 0, bytes);
    return SharedBytes(std::move(piece));
  }
  if (bytes >= kOwnMappingBytes) return Map(bytes);
  const std::lock_guard lock(mutex_);
  if (chunk_ == nullptr || bytes > kChunkBytes - used_) {
    chunk_ = Map(kChunkBytes);
    used_ = 0;
  }
  // What ends before its neighbours, as a matrix that a table was computed with, holds no memory.
  SharedBytes piece(chunk_.get() + used_,
                    [chunk = chunk_, bytes](std::byte* memory) { ReturnPages(memory, bytes); });
  used_ += RoundUp(bytes, kCacheLineBytes);
  return piece;
}

}  // namespace beamline::cpu
