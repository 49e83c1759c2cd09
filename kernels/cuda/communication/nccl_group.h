// The NCCL communicators and the peer-memory all-reduces of the ranks of one model, and the thread
// that watches them.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/communication/nccl_library.h"
#include "kernels/cuda/communication/peer_all_reduce.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// The rank of a process among all processes.
struct NcclPlace {
  int rank = 0;
  int size = 0;
  NcclName name;
};

// The ranks of this process: all ranks of a group, or one. The first fault is the fault of all
// ranks and is sticky. A watcher thread looks for NCCL's asynchronous errors, and for ranks that
// wait for the GPU without an end. After a fault it aborts the communicators, whose kernels then
// end wherever they are.
class NcclGroup {
 public:
  // One communicator per device, in their order. UNAVAILABLE and FAILED_PRECONDITION as of
  // OpenNccl. FAILED_PRECONDITION if two devices are the same GPU, or if the GPUs cannot access
  // each other's memory. RESOURCE_EXHAUSTED as of PeerAllReduce::Create. The devices may be
  // destroyed before the group. They must be if they hold CUDA graphs: NCCL keeps a communicator as
  // long as a graph has one of its kernels.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Create(std::span<Device* const> devices,
                                                           RankTraffic traffic,
                                                           std::chrono::nanoseconds time_limit);
  // A communicator for the only rank of this process. Waits until every rank has called, at most
  // `time_limit`. After a timeout, a detached thread keeps waiting for NCCL. Memory of this rank
  // that other ranks access stays valid until the group is destroyed, even after an abort.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Join(Device& device, const NcclPlace& place,
                                                         RankTraffic traffic,
                                                         std::chrono::nanoseconds time_limit);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int size() const { return size_; }
  const NcclLibrary& nccl() const { return nccl_; }
  // Null: NCCL computes every all-reduce. Called on the rank's thread, not after a fault.
  PeerAllReduce* peers(int rank) { return MemberOf(rank).peers.get(); }

  // Calls `enqueue` with the rank's communicator, but not after a fault. `enqueue` returns NCCL's
  // result. Called on the rank's thread. `what` names the call.
  void Call(int rank, const char* what, absl::FunctionRef<int(NcclComm)> enqueue);

  // Thread-safe.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status fault() const;
  // Returns before the communicators are aborted.
  void Fail(const absl::Status& why);

 private:
  struct Member {
    int device = 0;
    std::shared_ptr<const WaitMark> waits;
    std::timed_mutex calling;    // guards comm
    NcclComm comm = nullptr;     // null during and after an abort
    cudaGraph_t hold = nullptr;  // keeps the communicator's memory while it exists
    std::unique_ptr<PeerAllReduce> peers;
    // State of the watcher.
    uint64_t num_changes = 0;
    int64_t num_looks = 0;  // looks since num_changes last changed, while the rank waits
  };

  NcclGroup(const NcclLibrary& nccl, std::span<Device* const> devices, int first_rank, int size,
            std::chrono::nanoseconds time_limit);
  Member& MemberOf(int rank) { return *members_[static_cast<size_t>(rank - first_rank_)]; }
  absl::Status Connect();
  absl::Status ConnectRank(const NcclName& name);
  void HoldMemory(Device& device);
  absl::Status ConnectPeers(std::span<Device* const> devices);
  absl::Status ConnectNeighbours(std::span<Device* const> devices);
  void Watch();
  void LookForErrors();
  void LookAtPeers();
  void LookForWaits();
  void AbortAll();

  const NcclLibrary nccl_;
  const std::chrono::nanoseconds time_limit_;
  const std::chrono::nanoseconds between_looks_;
  const int first_rank_;                          // of this process
  const int size_;                                // of all processes
  std::vector<std::unique_ptr<Member>> members_;  // of each rank of this process
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  absl::Status fault_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace beamline::cuda
