// Device memory by sub-allocation from one cudaMalloc for each GPU, which all backends of the
// process share: what is taken is known at start, and nothing grows past it
// (docs/decisions/0005-gpu-memory.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_memory.h"

namespace beamline::cuda {

class SharedMemory;

// What memory is for, in reports.
enum class ArenaUse { kWeights, kCache, kActivations, kWorkspace };
inline constexpr int kNumArenaUses = 4;

// One backend's part in the memory of its GPU. Reports may be read from any thread, the rest
// belongs to the backend's. Memory that is freed may be handed out to the same backend at once:
// its work runs in the order of one stream. Another backend gets it once this one has waited for
// its stream and told Settle.
class Arena {
 public:
  static constexpr size_t kAlignment = 256;  // what cuBLASLt's heuristics assume of a pointer

  Arena() = default;
  // What it still has goes back, and the GPU's memory to the driver with the last arena. REQUIRES:
  // the backend's stream is idle.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Takes the GPU's memory from the driver, as much as `limit` says; or, when another arena of this
  // process has it already, a part in that, whatever its limit was. The GPU is the calling thread's
  // current one. RESOURCE_EXHAUSTED naming the setting.
  absl::Status Open(int gpu, const GpuMemoryLimit& limit);

  // At least `bytes` of device memory, kAlignment-aligned. RESOURCE_EXHAUSTED, saying what holds
  // the memory and which setting gives more. REQUIRES: Open succeeded.
  absl::StatusOr<void*> Allocate(size_t bytes, ArenaUse use);
  // REQUIRES: `memory` came from Allocate and is freed once; null does nothing.
  void Free(void* memory);

  // How often memory was freed. Once the host has waited for what the stream had at that moment,
  // Settle(num_frees) lets other backends have it. Takes a lock only when there is something new.
  uint64_t num_frees() const { return num_frees_; }
  void Settle(uint64_t num_frees);

  // This backend's use.
  std::vector<MemoryUse> used() const;
  // What no backend of the GPU has.
  size_t unused() const;

 private:
  SharedMemory* shared_ = nullptr;  // in the registry while an arena is open
  int gpu_ = 0;
  int owner_ = 0;  // in shared_
  uint64_t num_frees_ = 0;
  uint64_t num_settled_ = 0;
};

}  // namespace beamline::cuda
