// The kernels of PeerAllReduce, launched on the device's stream. The device records faults.
#pragma once

#include <cstdint>

#include "kernels/cuda/communication/peer_plan.h"
#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// What a rank's kernels know of the group. It is the same in every call, so CUDA graphs can keep
// it.
struct PeerGroupArgs {
  char* memory[kMostPeerRanks];  // staging memory of each rank, PeerLayout
  uint64_t* stop;                // pinned host memory: not kGoOn once there is a fault
  uint64_t time_limit_ns;
  PeerLayout layout;
  int rank;
  int size;
};

// Values of *stop.
inline constexpr uint64_t kGoOn = 0;
inline constexpr uint64_t kAborted = 1;
// `rank` waited for `missing` until the time limit.
constexpr uint64_t TimedOut(int rank, int missing) {
  return 2 | static_cast<uint64_t>(rank) << 8 | static_cast<uint64_t>(missing) << 16;
}
constexpr int WaitingRank(uint64_t stop) { return static_cast<int>(stop >> 8 & 0xff); }
constexpr int MissingRank(uint64_t stop) { return static_cast<int>(stop >> 16 & 0xff); }

// State of a rank between calls, in its staging memory, so that each replay of a CUDA graph reads
// it there. Only kernels change it, except shares_gpu, which the host sets.
struct PeerState {
  uint64_t num_calls;
  uint64_t failed;
  uint64_t last_look_ns;      // last read of the stop word, by any thread
  uint32_t num_begun_blocks;  // of the current call
  uint32_t shares_gpu;        // not 0: another rank, of any group, uses the GPU
};

// Loads the kernels for `num_ranks` ranks on the device's GPU. Loading them at the first launch
// might wait for a kernel that waits for another rank.
void LoadOneShot(Device& device, int num_ranks);
void LoadTwoShot(Device& device, int num_ranks);

// x = the sum over the ranks of x, in place. plan.num_vecs vectors have x's elements.
void LaunchOneShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x);
// whole = the parts of all ranks, one after the other. Each part is plan.num_vecs whole vectors.
void LaunchGather(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                  const void* part, void* whole);
void LaunchTwoShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x);

}  // namespace beamline::cuda
