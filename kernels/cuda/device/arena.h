// Device memory: one cudaMalloc for each GPU, out of which all backends of the process allocate.
// What the process takes is therefore known when it starts, and nothing grows past it
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

// What a piece of device memory is used for, as reports name it.
enum class ArenaUse { kWeights, kCache, kActivations, kWorkspace };
inline constexpr int kNumArenaUses = 4;

// One backend's part of its GPU's memory. used() and unused() may be called from any thread,
// everything else from the backend's thread alone. Memory that is freed may be handed out to the
// same backend at once: its work runs in the order of one stream. Another backend gets it only
// after this one has waited for its stream and called Settle.
class Arena {
 public:
  static constexpr size_t kAlignment = 256;  // what cuBLASLt's heuristics assume of a pointer

  Arena() = default;
  // Frees what is still allocated; the last arena of a GPU gives the GPU's memory back to the
  // driver. REQUIRES: the backend's stream is idle.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Takes device memory from the driver, as much as `limit` says. Where another arena of this
  // process has taken it already, this one shares it and `limit` is not read. RESOURCE_EXHAUSTED,
  // naming the setting, when the GPU does not have that much. REQUIRES: `gpu` is the calling
  // thread's current one.
  absl::Status Open(int gpu, const GpuMemoryLimit& limit);

  // At least `bytes` of device memory, kAlignment-aligned. RESOURCE_EXHAUSTED, saying what holds
  // the memory and which setting gives more. REQUIRES: Open succeeded.
  absl::StatusOr<void*> Allocate(size_t bytes, ArenaUse use);
  // REQUIRES: `memory` came from Allocate and is freed once; null does nothing.
  void Free(void* memory);

  // How often memory was freed. A caller that notes this number and then waits for all work that
  // the stream has at that moment passes it to Settle, which lets other backends have what those
  // frees gave back. Settle takes a lock only when there is something new.
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
