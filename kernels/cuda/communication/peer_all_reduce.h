// All-reduce over the GPUs of one host, for ranks that are threads of one process. Kernels read and
// write each other's staging memory (docs/decisions/0024-peer-all-reduce.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/communication/peer_kernels.h"
#include "kernels/cuda/communication/peer_plan.h"
#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

struct PeerOptions {
  // A rank has failed if it does not come to an all-reduce within this time after another rank
  // began to wait.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(60);
  // Limit of the blocks of a kernel. All kernels that run on a GPU at a time, of all groups, must
  // fit on it together, because they wait for each other. The default leaves three quarters of an
  // H200.
  int most_blocks = kMostPeerBlocks;
};

// State shared by the ranks of a group. Lives as long as the last of them.
class PeerGroup;

// One rank's part of the group. Every rank makes the same calls in the same order, with arguments
// of the same shapes and types. A call goes to the stream of the rank's device and returns before
// it is done. Calls may be captured in CUDA graphs (recorder.h). Graphs may be replayed in any
// order that all ranks share, mixed with calls outside of graphs. One thread calls at a time,
// except status and Abort.
//
// Additions are in float32, in the order of the ranks, and rounded once. So all ranks get the same
// bits.
//
// A fault is sticky and the fault of all ranks. After it the outputs of calls are undefined, and no
// kernel waits. As in kernels/communicator.h, status() need not be read before the end of a step.
// Peers access only staging memory, which outlives the kernels of all ranks. So x may be freed as
// soon as its own stream is done with it, whatever the other ranks do.
class PeerAllReduce {
 public:
  // Whether these ranks can sum in each other's memory. Their GPUs need a link with native atomic
  // operations, like NVLink, because a packet of 16 bytes must arrive as a whole.
  static bool Suits(std::span<Device* const> devices);
  // One PeerAllReduce per device, in their order. REQUIRES: the devices are destroyed before the
  // last PeerAllReduce, or have none of its work in flight when it is destroyed. A CUDA graph may
  // outlive them if it is not replayed. Kernels of devices on the same GPU fit on it together
  // (PeerOptions::most_blocks). No other thread uses the devices during this call.
  //
  // INVALID_ARGUMENT for fewer than kLeastPeerRanks or more than kMostPeerRanks devices.
  // FAILED_PRECONDITION, with the names of two GPUs, if one cannot access the other's memory.
  // RESOURCE_EXHAUSTED without memory for staging.
  static absl::StatusOr<std::vector<std::unique_ptr<PeerAllReduce>>> Create(
      std::span<Device* const> devices, const PeerOptions& options = {});
  PeerAllReduce(const PeerAllReduce&) = delete;
  PeerAllReduce& operator=(const PeerAllReduce&) = delete;

  int rank() const { return args_.rank; }
  int size() const { return args_.size; }

  // Whether a sum of `num_elements` elements is faster here than in NCCL. Accepts float32, float16
  // and bfloat16.
  bool Takes(DType dtype, int64_t num_elements) const;
  // x = the sum of every rank's x. Rows follow each other without gaps. Any size, and any alignment
  // that the type allows; does nothing without elements. The device records launch faults.
  void Sum(const Tensor& x);
  // The same with a given algorithm. REQUIRES: FitsOneShot for kOneShot.
  void Sum(const Tensor& x, PeerAlgorithm algorithm);

  // Whether Gather takes parts of `num_bytes` each: sizes as of short sums, in whole and aligned
  // vectors. The memory of all ranks is aligned alike.
  bool TakesGather(const void* part, const void* whole, size_t num_bytes) const;
  // whole = the parts of all ranks, `num_bytes` each, in rank order. REQUIRES: TakesGather.
  void Gather(const void* part, void* whole, size_t num_bytes);

  // OK, or UNAVAILABLE after a fault in a kernel or after Abort. Does not wait for the stream.
  // Thread-safe.
  absl::Status status() const;
  // Ends all waits of all ranks. Thread-safe.
  void Abort();

 private:
  PeerAllReduce(Device& device, std::shared_ptr<PeerGroup> group, const PeerGroupArgs& args,
                const PeerOptions& options)
      : device_(device), group_(std::move(group)), args_(args), options_(options) {}

  Device& device_;
  const std::shared_ptr<PeerGroup> group_;
  const PeerGroupArgs args_;
  const PeerOptions options_;
};

}  // namespace beamline::cuda
