#include "kernels/cpu/populate_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/cpu/host_memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // <linux/mman.h> of 5.14
#endif

namespace beamline::cpu {

size_t PopulatePages(void* data, size_t bytes, const std::atomic<bool>* stop) {
  // One look at what is left, and at `stop`, for each piece.
  constexpr uintptr_t kPieceBytes = uintptr_t{64} << 20;
  constexpr int64_t kBytesLeft = int64_t{256} << 20;
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = RoundUp(address, page_bytes);
  const uintptr_t end = std::max((address + bytes) / page_bytes * page_bytes, first);
  uintptr_t begin = first;
  while (begin < end && (stop == nullptr || !*stop)) {
    const uintptr_t piece = std::min(end - begin, kPieceBytes);
    if (FreeHostMemory() < kBytesLeft + static_cast<int64_t>(piece)) break;
    auto* const memory = reinterpret_cast<void*>(begin);
    madvise(memory, piece, MADV_HUGEPAGE);  // a system without them gives small ones
    if (madvise(memory, piece, MADV_POPULATE_WRITE) != 0) break;
    begin += piece;
  }
  return begin - first;
}

}  // namespace beamline::cpu
