#include "kernels/cuda/device/arena.h"

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/range_allocator.h"

namespace beamline::cuda {
namespace {

constexpr std::array<const char*, kNumArenaUses> kUseNames = {"weights", "cache", "activations",
                                                              "workspaces"};
static_assert(Arena::kAlignment == RangeAllocator::kAlignment);

}  // namespace

// One GPU's memory. Thread-safe.
class SharedMemory {
 public:
  // `limit`: the text with which NoMemoryLeft names the limit.
  SharedMemory(void* memory, size_t bytes, std::string limit)
      : memory_(static_cast<char*>(memory)),
        limit_(std::move(limit)),
        ranges_(bytes, kNumArenaUses) {}
  ~SharedMemory() { cudaFree(memory_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int AddOwner() {
    const std::lock_guard lock(mutex_);
    return ranges_.AddOwner();
  }
  void RemoveOwner(int owner) {
    const std::lock_guard lock(mutex_);
    ranges_.RemoveOwner(owner);
  }
  absl::StatusOr<void*> Allocate(int owner, size_t bytes, ArenaUse use) {
    const std::lock_guard lock(mutex_);
    const std::optional<size_t> offset = ranges_.Allocate(owner, bytes, static_cast<int>(use));
    if (offset.has_value()) return memory_ + *offset;
    std::vector<MemoryUse> uses;
    for (int i = 0; i < kNumArenaUses; ++i) uses.push_back({kUseNames[i], ranges_.used(i)});
    return NoMemoryLeft(bytes, kUseNames[static_cast<int>(use)], uses, ranges_.unused(),
                        ranges_.largest_free(owner), limit_);
  }
  void Free(int owner, void* memory) {
    const std::lock_guard lock(mutex_);
    ranges_.Free(owner, static_cast<size_t>(static_cast<char*>(memory) - memory_));
  }
  void Settle(int owner, uint64_t num_frees) {
    const std::lock_guard lock(mutex_);
    ranges_.Settle(owner, num_frees);
  }
  std::vector<MemoryUse> used(int owner) const {
    const std::lock_guard lock(mutex_);
    std::vector<MemoryUse> uses;
    for (int i = 0; i < kNumArenaUses; ++i) uses.push_back({kUseNames[i], ranges_.used(owner, i)});
    return uses;
  }
  size_t unused() const {
    const std::lock_guard lock(mutex_);
    return ranges_.unused();
  }

 private:
  char* const memory_;
  const std::string limit_;
  mutable std::mutex mutex_;  // guards what follows
  RangeAllocator ranges_;
};

namespace {

// The device memory of every GPU that has an open arena.
struct Registry {
  struct Entry {
    std::unique_ptr<SharedMemory> memory;
    int num_arenas = 0;
  };
  std::mutex mutex;  // guards `entries`; held while a GPU's memory is allocated or freed
  std::map<int, Entry> entries;  // by GPU
};

Registry& AllMemory() {
  static Registry* const registry = new Registry();  // outlives every backend
  return *registry;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> TakeFromDriver(int gpu, const GpuMemoryLimit& limit) {
  BEAMLINE_RETURN_IF_ERROR(CheckGpuMemoryLimit(limit));
  GpuMemoryState state = {.gpu = gpu};
  if (const cudaError_t error = cudaMemGetInfo(&state.free_bytes, &state.total_bytes);
      error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(
        fmt::format("GPU {}: cudaMemGetInfo: {}", gpu, cudaGetErrorString(error)));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const size_t bytes, GpuMemoryBytes(limit, state));
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  const std::string reason = DescribeGpuMemoryLimit(limit, state);
  if (error == cudaSuccess) return std::make_unique<SharedMemory>(memory, bytes, reason);
  cudaGetLastError();
  return absl::ResourceExhaustedError(
      fmt::format("GPU {} does not give {} MiB in one piece: {}; {}. End what else uses the GPU "
                  "(nvidia-smi lists the processes) or lower the limit",
                  gpu, bytes >> 20, cudaGetErrorString(error), reason));
}

}  // namespace

absl::Status Arena::Open(int gpu, const GpuMemoryLimit& limit) {
  BEAMLINE_CHECK(shared_ == nullptr);
  Registry& all = AllMemory();
  const std::lock_guard lock(all.mutex);
  if (!all.entries.contains(gpu)) {
    BEAMLINE_ASSIGN_OR_RETURN(auto memory, TakeFromDriver(gpu, limit));
    all.entries[gpu].memory = std::move(memory);
  }
  Registry::Entry& entry = all.entries[gpu];
  ++entry.num_arenas;
  shared_ = entry.memory.get();
  gpu_ = gpu;
  owner_ = shared_->AddOwner();
  return absl::OkStatus();
}

Arena::~Arena() {
  if (shared_ == nullptr) return;
  Registry& all = AllMemory();
  const std::lock_guard lock(all.mutex);
  shared_->RemoveOwner(owner_);
  const auto entry = all.entries.find(gpu_);
  if (--entry->second.num_arenas == 0) all.entries.erase(entry);
}

absl::StatusOr<void*> Arena::Allocate(size_t bytes, ArenaUse use) {
  return shared_->Allocate(owner_, bytes, use);
}

void Arena::Free(void* memory) {
  if (memory == nullptr) return;
  shared_->Free(owner_, memory);
  ++num_frees_;
}

void Arena::Settle(uint64_t num_frees) {
  if (num_frees <= num_settled_) return;
  shared_->Settle(owner_, num_frees);
  num_settled_ = num_frees;
}

std::vector<MemoryUse> Arena::used() const { return shared_->used(owner_); }

size_t Arena::unused() const { return shared_->unused(); }

}  // namespace beamline::cuda
