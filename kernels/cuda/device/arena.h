// Device memory: one cudaMalloc per GPU. All backends of the process allocate from it. So the
// process's device memory is known at startup and does not grow
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

// The use of a piece of device memory, as reports name it.
enum class ArenaUse { kWeights, kCache, kActivations, kWorkspace };
inline constexpr int kNumArenaUses = 4;

// One backend's part of its GPU's memory. used() and unused() may be called from any thread, all
// other functions only from the backend's thread. Freed memory may be given to the same backend at
// once, because its work runs in the order of one stream. Another backend gets it only after this
// one has waited for its stream and called Settle.
class Arena {
 public:
  static constexpr size_t kAlignment = 256;  // which cuBLASLt's heuristics assume of a pointer

  Arena() = default;
  // Frees what is still allocated. The last arena of a GPU returns the GPU's memory to the driver.
  // REQUIRES: the backend's stream is idle.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Allocates device memory from the driver, as much as `limit` says. If another arena of this
  // process has already done so, this one shares its memory and ignores `limit`.
  // RESOURCE_EXHAUSTED, naming the setting, if the GPU does not have that much. REQUIRES: `gpu` is
  // the calling thread's current device.
  absl::Status Open(int gpu, const GpuMemoryLimit& limit);

  // Returns at least `bytes` of device memory, aligned to kAlignment. RESOURCE_EXHAUSTED, naming
  // the uses of the memory and the setting that gives more. REQUIRES: Open succeeded.
  absl::StatusOr<void*> Allocate(size_t bytes, ArenaUse use);
  // REQUIRES: `memory` is from Allocate and is freed once. Null does nothing.
  void Free(void* memory);

  // The number of frees so far. Settle(n) makes the memory of the first n frees available to other
  // backends. The caller notes num_frees(), waits for all work that the stream has at that moment,
  // and then passes the noted number to Settle. Settle takes a lock only if there is something new.
  uint64_t num_frees() const { return num_frees_; }
  void Settle(uint64_t num_frees);

  // Bytes that this backend holds, by use.
  std::vector<MemoryUse> used() const;
  // Bytes that no backend of the GPU holds.
  size_t unused() const;

 private:
  SharedMemory* shared_ = nullptr;  // in the registry while an arena is open
  int gpu_ = 0;
  int owner_ = 0;  // in shared_
  uint64_t num_frees_ = 0;
  uint64_t num_settled_ = 0;
};

}  // namespace beamline::cuda
