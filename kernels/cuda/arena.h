// Device memory by sub-allocation from large cudaMalloc slabs: a transformer's hundreds of buffers
// cost a handful of driver calls, and the peak is known by name.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline::cuda {

// What memory is for, in reports.
enum class ArenaUse { kWeights, kCache, kActivations, kWorkspace };
inline constexpr int kNumArenaUses = 4;

// Not thread-safe. Memory that is freed may be handed out again at once: users work in the order of
// one stream, so nothing still running writes to it after its next owner began.
class Arena {
 public:
  static constexpr size_t kAlignment = 256;  // what cuBLASLt's heuristics assume of a pointer

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // At least `bytes` of device memory, kAlignment-aligned. RESOURCE_EXHAUSTED when the GPU has
  // none.
  absl::StatusOr<void*> Allocate(size_t bytes, ArenaUse use);
  // REQUIRES: `memory` came from Allocate and is freed once.
  void Free(void* memory);

  size_t used(ArenaUse use) const { return used_[static_cast<int>(use)]; }
  // Bytes taken from the driver that nobody has.
  size_t unused() const {
    return std::accumulate(used_.begin(), used_.end(), reserved_, std::minus<>());
  }

 private:
  struct Block {
    size_t size = 0;
    ArenaUse use = ArenaUse::kActivations;
  };

  absl::StatusOr<void*> AddSlab(size_t bytes);

  std::vector<void*> slabs_;
  std::map<char*, size_t> free_;    // by address, neighbours of one slab merged
  std::map<char*, Block> blocks_;   // handed out
  std::map<char*, size_t> bounds_;  // slab start -> size: free blocks of two slabs never merge
  std::array<size_t, kNumArenaUses> used_ = {};
  size_t reserved_ = 0;  // bytes taken from the driver
};

}  // namespace beamline::cuda
