// Sums over the GPUs of one host whose ranks are threads of one process, in kernels that read and
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
  // A rank that does not come to a sum within this time after another one began to wait has failed.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(60);
  // Of a kernel. All that run on a GPU at a time, those of several groups too, must have room
  // there together, because they wait for each other; these leave three quarters of an H200.
  int most_blocks = kMostPeerBlocks;
};

// What the ranks of a group share. Lives as long as the longest-lived of them.
class PeerGroup;

// One rank's end. Every rank makes the same calls in the same order, with arguments of the same
// shapes and types. A call goes to the stream of the rank's device and returns before it is done;
// it may be recorded (recorder.h) and replayed in any order of recordings that all ranks share,
// mixed with calls that are not. One thread calls at a time, but for status and Abort.
//
// Additions are in float32 and in the order of the ranks, rounded once: all ranks get the same
// bits.
//
// A fault is sticky and all ranks': after it, what a call should have written is undefined, and no
// kernel waits. As kernels/communicator.h has it, nobody needs to look before the end of a step.
// Peers reach into staging memory alone, which outlives every rank's kernels, so that x may be
// freed as soon as its own stream is done with it, whatever became of the others.
class PeerAllReduce {
 public:
  // Whether so many ranks can sum in each other's memory, on GPUs that have a link for it: one that
  // has atomic operations of its own, as NVLink, since a packet of 16 bytes must arrive whole.
  static bool Suits(std::span<Device* const> devices);
  // An end for each of `devices`, in their order. They are gone before the last of the ends, or
  // have nothing of theirs under way when it goes; a recording may outlive the ends if it is not
  // replayed. Devices of one GPU have room there together. INVALID_ARGUMENT for fewer than
  // kLeastPeerRanks or more than kMostPeerRanks; FAILED_PRECONDITION naming the two GPUs of which
  // one does not reach the other's memory; RESOURCE_EXHAUSTED without memory for staging. The
  // calling thread is the only one that uses the devices meanwhile.
  static absl::StatusOr<std::vector<std::unique_ptr<PeerAllReduce>>> Create(
      std::span<Device* const> devices, const PeerOptions& options = {});
  PeerAllReduce(const PeerAllReduce&) = delete;
  PeerAllReduce& operator=(const PeerAllReduce&) = delete;

  int rank() const { return args_.rank; }
  int size() const { return args_.size; }

  // Whether a sum of so many elements is faster here than in NCCL. float32, float16, bfloat16.
  bool Takes(DType dtype, int64_t num_elements) const;
  // x = the sum of every rank's x. Rows follow each other without gaps. Any size, and any alignment
  // that the type allows; with no elements it does nothing. Faults of a launch are the device's.
  void Sum(const Tensor& x);
  // The same by a given algorithm. REQUIRES: FitsOneShot where that is kOneShot.
  void Sum(const Tensor& x, PeerAlgorithm algorithm);

  // Whether parts of so many bytes are gathered here, as short sums are: whole vectors that lie as
  // such. All ranks' memory is aligned alike.
  bool TakesGather(const void* part, const void* whole, size_t num_bytes) const;
  // whole = the parts of all ranks, of so many bytes each, in the order of the ranks. REQUIRES:
  // TakesGather.
  void Gather(const void* part, void* whole, size_t num_bytes);

  // OK, or UNAVAILABLE with a fault that kernels raised, or Abort. Does not wait for the stream.
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
