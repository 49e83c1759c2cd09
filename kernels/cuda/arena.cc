#include "kernels/cuda/arena.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kernels/check.h"
#include "kernels/status.h"

namespace beamline::cuda {
namespace {

constexpr size_t kSlabBytes = size_t{256} << 20;

size_t RoundUp(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + Arena::kAlignment - 1) / Arena::kAlignment *
         Arena::kAlignment;
}

}  // namespace

Arena::~Arena() {
  for (void* slab : slabs_) cudaFree(slab);
}

absl::StatusOr<void*> Arena::AddSlab(size_t bytes) {
  void* slab = nullptr;
  if (cudaMalloc(&slab, bytes) != cudaSuccess) {
    cudaGetLastError();
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return absl::ResourceExhaustedError(
        fmt::format("the GPU cannot give {} MiB: {} MiB of {} MiB are free", bytes >> 20,
                    free_bytes >> 20, total_bytes >> 20));
  }
  slabs_.push_back(slab);
  bounds_[static_cast<char*>(slab)] = bytes;
  reserved_ += bytes;
  return slab;
}

absl::StatusOr<void*> Arena::Allocate(size_t bytes, ArenaUse use) {
  bytes = RoundUp(bytes);
  // Best fit keeps the large ranges whole.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
  }
  if (best == free_.end()) {
    const size_t slab_bytes = std::max(bytes, kSlabBytes);
    absl::StatusOr<void*> slab = AddSlab(slab_bytes);
    if (!slab.ok() && slab_bytes > bytes) slab = AddSlab(bytes);
    if (!slab.ok()) return slab.status();
    char* const start = static_cast<char*>(*slab);
    best = free_.emplace(start, bounds_[start]).first;
  }
  char* const start = best->first;
  const size_t rest = best->second - bytes;
  free_.erase(best);
  if (rest > 0) free_.emplace(start + bytes, rest);
  blocks_[start] = {bytes, use};
  used_[static_cast<int>(use)] += bytes;
  return start;
}

void Arena::Free(void* memory) {
  if (memory == nullptr) return;
  const auto block = blocks_.find(static_cast<char*>(memory));
  BEAMLINE_CHECK(block != blocks_.end());
  auto [start, size] = std::pair(block->first, block->second.size);
  used_[static_cast<int>(block->second.use)] -= size;
  blocks_.erase(block);
  const auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + size && !bounds_.contains(next->first)) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(start);
  if (after != free_.begin() && !bounds_.contains(start)) {
    const auto previous = std::prev(after);
    if (previous->first + previous->second == start) {
      previous->second += size;
      return;
    }
  }
  free_.emplace(start, size);
}

}  // namespace beamline::cuda
