// NCCL's communicators of the ranks of one model, their ends of sums in each other's memory, and
// who watches over them.
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

// A process's rank among those of others.
struct NcclPlace {
  int rank = 0;
  int size = 0;
  NcclName name;
};

// The ranks of this process, all of a group's or one. The first fault is everyone's and stays. A
// thread watches: for errors that NCCL met on its own, and for ranks that wait for the GPU without
// an end. After a fault it aborts the communicators, whose kernels then end wherever they are.
class NcclGroup {
 public:
  // A communicator for each device, in their order. UNAVAILABLE and FAILED_PRECONDITION as
  // OpenNccl; FAILED_PRECONDITION when two of the GPUs are one, or cannot reach each other's
  // memory; RESOURCE_EXHAUSTED as PeerAllReduce::Create. The devices may go before the group, and
  // must, if they hold recordings: NCCL keeps a communicator as long as there is one of its
  // kernels.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Create(std::span<Device* const> devices,
                                                           RankTraffic traffic,
                                                           std::chrono::nanoseconds time_limit);
  // A communicator for the one rank of this process. Waits until every rank has called, at most
  // `time_limit`; where it is not made by then, a thread that waits for it is left behind. What the
  // other ranks reach of it stays until the group goes, after an abort too.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Join(Device& device, const NcclPlace& place,
                                                         RankTraffic traffic,
                                                         std::chrono::nanoseconds time_limit);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int size() const { return size_; }
  const NcclLibrary& nccl() const { return nccl_; }
  // Null: NCCL makes every sum. For the thread of the rank, not after a fault.
  PeerAllReduce* peers(int rank) { return MemberOf(rank).peers.get(); }

  // Calls `enqueue`, which returns NCCL's result, with the rank's communicator; not after a fault.
  // By the thread of the rank. `what` names the call.
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
    NcclComm comm = nullptr;     // null once it is being aborted
    cudaGraph_t hold = nullptr;  // as long as it is there, the communicator's memory is
    std::unique_ptr<PeerAllReduce> peers;
    // Of the watch.
    uint64_t num_changes = 0;
    int64_t num_looks = 0;  // since num_changes is what it is, while the rank waits
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
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  absl::Status fault_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace beamline::cuda
