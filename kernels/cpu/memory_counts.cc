#include "kernels/cpu/memory_counts.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace beamline::cpu {
namespace {

// Bytes of whole resident pages, plus the partial pages at both ends, which neighbours share. All
// bytes if mincore fails.
size_t ResidentBytes(const std::byte* data, size_t bytes) {
  static const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = RoundUp(address, page_bytes);
  const uintptr_t end = (address + bytes) / page_bytes * page_bytes;
  if (end <= begin) return bytes;
  size_t resident = bytes - (end - begin);
  std::array<unsigned char, 4096> pages;  // bit 0: resident
  for (uintptr_t from = begin; from < end; from += pages.size() * page_bytes) {
    const size_t length = std::min(pages.size() * page_bytes, end - from);
    if (mincore(reinterpret_cast<void*>(from), length, pages.data()) != 0) return bytes;
    const auto count = static_cast<ptrdiff_t>(length / page_bytes);
    resident += page_bytes * static_cast<size_t>(
                                 std::count_if(pages.begin(), pages.begin() + count,
                                               [](unsigned char page) { return (page & 1) != 0; }));
  }
  return resident;
}

}  // namespace

void MemoryCounts::AddBuffer(MemoryKind kind, const std::byte* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  buffers_[data] = {kind, bytes};
  process_bytes_ += static_cast<int64_t>(bytes);
}

void MemoryCounts::RemoveBuffer(const std::byte* data) {
  std::lock_guard lock(mutex_);
  const auto buffer = buffers_.find(data);
  process_bytes_ -= static_cast<int64_t>(buffer->second.bytes);
  buffers_.erase(buffer);
}

std::vector<MemoryUse> MemoryCounts::Read() const {
  std::array<size_t, 3> bytes;
  std::copy(bytes_.begin(), bytes_.end(), bytes.begin());
  {
    std::lock_guard lock(mutex_);
    for (const auto& [data, buffer] : buffers_) {
      bytes[static_cast<size_t>(buffer.kind)] += ResidentBytes(data, buffer.bytes);
    }
  }
  const auto of = [&bytes](MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; };
  return {{"weights", of(MemoryKind::kWeights)},
          {"cache", of(MemoryKind::kCache)},
          {"activations", of(MemoryKind::kActivations)}};
}

}  // namespace beamline::cpu
