#include "kernels/cpu/return_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/math.h"

namespace beamline::cpu {

void ReturnPages(void* data, size_t bytes) {
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = RoundUp(address, page_bytes);
  const uintptr_t end = (address + bytes) / page_bytes * page_bytes;
  // Locked pages stay, which changes nothing else.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace beamline::cpu
