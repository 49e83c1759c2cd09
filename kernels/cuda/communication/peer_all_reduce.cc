#include "kernels/cuda/communication/peer_all_reduce.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline::cuda {
namespace {

// Initial content of the staging memory: NaN in every type, and the number of no call. So data that
// is read before it is sent is noticed.
constexpr int kPoison = 0xff;

absl::Status CudaError(int gpu, const char* what, cudaError_t error) {
  cudaGetLastError();  // clears the error, which later launches must not report
  const std::string message = fmt::format("GPU {}: {}: {} ({})", gpu, what,
                                          cudaGetErrorString(error), cudaGetErrorName(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

// Lets kernels on `from`'s GPU read and write `to`'s memory.
absl::Status ReachMemory(Device& from, const Device& to) {
  if (from.index() == to.index()) return absl::OkStatus();
  from.Use();
  int reaches = 0;
  cudaError_t error = cudaDeviceCanAccessPeer(&reaches, from.index(), to.index());
  if (error != cudaSuccess) return CudaError(from.index(), "cudaDeviceCanAccessPeer", error);
  if (reaches == 0) {
    return absl::FailedPreconditionError(
        fmt::format("GPU {} ({}) does not reach the memory of GPU {} ({}); accepted: GPUs that are "
                    "peers of each other (`nvidia-smi topo -p2p rw` lists them)",
                    from.index(), from.properties().name, to.index(), to.properties().name));
  }
  error = cudaDeviceEnablePeerAccess(to.index(), 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return absl::OkStatus();
  }
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaError(from.index(), fmt::format("peer access to GPU {}", to.index()).c_str(), error);
}

// Sets memory of a GPU and waits for that. Keeps the calling thread's current GPU.
cudaError_t SetMemory(int gpu, void* memory, int value, size_t size) {
  int before = 0;
  cudaError_t error = cudaGetDevice(&before);
  if (error == cudaSuccess) error = cudaSetDevice(gpu);
  cudaStream_t stream = nullptr;
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaMemsetAsync(memory, value, size, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (stream != nullptr) cudaStreamDestroy(stream);
  if (error != cudaSuccess) cudaGetLastError();  // later launches must not report it
  const cudaError_t left = cudaSetDevice(before);
  return error == cudaSuccess ? left : error;
}

// All ranks of all groups of the process, by GPU. Sets PeerState::shares_gpu of the ranks that
// share their GPU with another rank. A kernel that started before this ends by itself, because the
// ranks of the group under construction do not sum yet.
class RanksOfGpus {
 public:
  static RanksOfGpus& Get() {
    static auto* const ranks = new RanksOfGpus;
    return *ranks;
  }

  // `state`: of a rank, in memory of that GPU. Returns CUDA's error.
  cudaError_t Add(int gpu, PeerState* state) {
    std::lock_guard lock(mutex_);
    ranks_.push_back({gpu, state, false});
    return TellAll(gpu);
  }
  void Remove(const PeerState* state) {
    std::lock_guard lock(mutex_);
    const auto rank = std::ranges::find(ranks_, state, &Rank::state);
    if (rank == ranks_.end()) return;
    const int gpu = rank->gpu;
    ranks_.erase(rank);
    TellAll(gpu);  // a failed GPU needs no update
  }

 private:
  struct Rank {
    int gpu = 0;
    PeerState* state = nullptr;
    bool has_company = false;
  };

  cudaError_t TellAll(int gpu) {
    const bool has_company = std::ranges::count(ranks_, gpu, &Rank::gpu) > 1;
    for (Rank& rank : ranks_) {
      if (rank.gpu != gpu || rank.has_company == has_company) continue;
      const cudaError_t error = SetMemory(gpu, &rank.state->shares_gpu, has_company ? 1 : 0,
                                          sizeof(rank.state->shares_gpu));
      if (error != cudaSuccess) return error;
      rank.has_company = has_company;
    }
    return cudaSuccess;
  }

  std::mutex mutex_;
  std::vector<Rank> ranks_;
};

}  // namespace

class PeerGroup {
 public:
  PeerGroup() = default;
  // The kernels of all ranks are done, because each device has waited for its own.
  ~PeerGroup() {
    for (PeerState* state : states_) RanksOfGpus::Get().Remove(state);
    if (stop_ != nullptr) cudaFreeHost(stop_);
    for (char* memory : memory_) cudaFree(memory);
  }
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  absl::Status Allocate(std::span<Device* const> devices, const PeerLayout& layout) {
    devices.front()->Use();
    void* stop = nullptr;
    cudaError_t error =
        cudaHostAlloc(&stop, sizeof(*stop_), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error != cudaSuccess) return CudaError(devices.front()->index(), "cudaHostAlloc", error);
    stop_ = new (stop) std::atomic<uint64_t>(kGoOn);
    for (Device* device : devices) {
      device->Use();
      void* memory = nullptr;
      error = cudaMalloc(&memory, layout.num_bytes);
      if (error != cudaSuccess) {
        return CudaError(device->index(),
                         fmt::format("{} MiB beside gpu_memory_fraction or gpu_memory_bytes, for "
                                     "sums over ranks",
                                     layout.num_bytes >> 20)
                             .c_str(),
                         error);
      }
      memory_.push_back(static_cast<char*>(memory));
      // The state and the flags. On the device's own stream, because another stream of its GPU may
      // be capturing now.
      error = cudaMemsetAsync(memory, 0, layout.packets, device->stream());
      if (error == cudaSuccess) {
        error = cudaMemsetAsync(memory_.back() + layout.packets, kPoison,
                                layout.num_bytes - layout.packets, device->stream());
      }
      // Peers may write only after this.
      if (error == cudaSuccess) error = cudaStreamSynchronize(device->stream());
      if (error == cudaSuccess) {
        states_.push_back(reinterpret_cast<PeerState*>(memory_.back() + layout.state));
        error = RanksOfGpus::Get().Add(device->index(), states_.back());
      }
      if (error != cudaSuccess) return CudaError(device->index(), "cudaMemset", error);
    }
    return absl::OkStatus();
  }

  char* memory(int rank) const { return memory_[rank]; }
  // In pinned memory. Kernels write it too, without the host's atomic operations. So of two
  // simultaneous faults, either one may stay.
  std::atomic<uint64_t>& stop() const { return *stop_; }

 private:
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  std::vector<char*> memory_;
  std::vector<PeerState*> states_;  // in memory_
  std::atomic<uint64_t>* stop_ = nullptr;
};

bool PeerAllReduce::Suits(std::span<Device* const> devices) {
  const int size = static_cast<int>(devices.size());
  if (size < kLeastPeerRanks || size > kMostPeerRanks) return false;
  for (const Device* from : devices) {
    for (const Device* to : devices) {
      if (from->index() == to->index()) continue;
      for (const cudaDeviceP2PAttr needed :
           {cudaDevP2PAttrAccessSupported, cudaDevP2PAttrNativeAtomicSupported}) {
        int has = 0;
        const cudaError_t error =
            cudaDeviceGetP2PAttribute(&has, needed, from->index(), to->index());
        if (error != cudaSuccess) cudaGetLastError();
        if (has == 0) return false;
      }
    }
  }
  return true;
}

absl::StatusOr<std::vector<std::unique_ptr<PeerAllReduce>>> PeerAllReduce::Create(
    std::span<Device* const> devices, const PeerOptions& options) {
  const int size = static_cast<int>(devices.size());
  if (size < kLeastPeerRanks || size > kMostPeerRanks) {
    return absl::InvalidArgumentError(
        fmt::format("sums over {} ranks in each other's memory were asked for; accepted: {} to {}",
                    size, kLeastPeerRanks, kMostPeerRanks));
  }
  BEAMLINE_CHECK(options.most_blocks >= 1 && options.most_blocks <= kMostPeerBlocks);
  for (Device* from : devices) {
    for (const Device* to : devices) BEAMLINE_RETURN_IF_ERROR(ReachMemory(*from, *to));
  }
  const PeerLayout layout(size);
  const auto group = std::make_shared<PeerGroup>();
  BEAMLINE_RETURN_IF_ERROR(group->Allocate(devices, layout));
  for (Device* device : devices) {
    device->Use();
    LoadOneShot(*device, size);
    LoadTwoShot(*device, size);
    BEAMLINE_RETURN_IF_ERROR(device->status());
  }
  PeerGroupArgs args = {.memory = {},
                        .stop = reinterpret_cast<uint64_t*>(&group->stop()),
                        .time_limit_ns = static_cast<uint64_t>(options.time_limit.count()),
                        .layout = layout,
                        .rank = 0,
                        .size = size};
  for (int rank = 0; rank < size; ++rank) args.memory[rank] = group->memory(rank);
  std::vector<std::unique_ptr<PeerAllReduce>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    args.rank = rank;
    ranks.push_back(
        std::unique_ptr<PeerAllReduce>(new PeerAllReduce(*devices[rank], group, args, options)));
  }
  return ranks;
}

bool PeerAllReduce::Takes(DType dtype, int64_t num_elements) const {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16) {
    return false;
  }
  return num_elements * static_cast<int64_t>(SizeOf(dtype)) <= MostPeerBytes(size());
}

void PeerAllReduce::Sum(const Tensor& x) {
  const int64_t num_bytes = x.num_elements() * static_cast<int64_t>(SizeOf(x.dtype));
  Sum(x, ChoosePeerAlgorithm(size(), num_bytes));
}

void PeerAllReduce::Sum(const Tensor& x, PeerAlgorithm algorithm) {
  BEAMLINE_CHECK(x.num_rows() <= 1 || x.row_stride == x.dim(-1));
  const int64_t num_bytes = x.num_elements() * static_cast<int64_t>(SizeOf(x.dtype));
  if (num_bytes == 0) return;
  device_.Use();
  if (!device_.ok()) return;
  const PeerPlan plan = PlanPeerSum(algorithm, size(), options_.most_blocks, num_bytes);
  if (algorithm == PeerAlgorithm::kOneShot) {
    LaunchOneShot(device_, args_, plan, x);
  } else {
    LaunchTwoShot(device_, args_, plan, x);
  }
}

bool PeerAllReduce::TakesGather(const void* part, const void* whole, size_t num_bytes) const {
  const auto size_of_vec = static_cast<size_t>(kPeerVecBytes);
  const auto bytes = static_cast<int64_t>(num_bytes);
  return bytes > 0 && num_bytes % size_of_vec == 0 &&
         reinterpret_cast<uintptr_t>(part) % size_of_vec == 0 &&
         reinterpret_cast<uintptr_t>(whole) % size_of_vec == 0 && FitsOneShot(size(), bytes) &&
         ChoosePeerAlgorithm(size(), bytes) == PeerAlgorithm::kOneShot;
}

void PeerAllReduce::Gather(const void* part, void* whole, size_t num_bytes) {
  BEAMLINE_CHECK(TakesGather(part, whole, num_bytes));
  device_.Use();
  if (!device_.ok()) return;
  const PeerPlan plan = PlanPeerSum(PeerAlgorithm::kOneShot, size(), options_.most_blocks,
                                    static_cast<int64_t>(num_bytes));
  LaunchGather(device_, args_, plan, part, whole);
}

absl::Status PeerAllReduce::status() const {
  const uint64_t stop = group_->stop().load(std::memory_order_acquire);
  if (stop == kGoOn) return absl::OkStatus();
  if (stop == kAborted) return absl::UnavailableError("the sums over ranks were aborted");
  return absl::UnavailableError(fmt::format(
      "rank {} did not come to a sum within {} ms, for which rank {} of {} waited",
      MissingRank(stop),
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.time_limit).count(),
      WaitingRank(stop), size()));
}

void PeerAllReduce::Abort() {
  uint64_t expected = kGoOn;
  group_->stop().compare_exchange_strong(expected, kAborted);
}

}  // namespace beamline::cuda
