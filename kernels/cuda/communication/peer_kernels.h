// The kernels behind PeerAllReduce, launched on the device's stream; faults are the device's.
#pragma once

#include <cstdint>

#include "kernels/cuda/communication/peer_plan.h"
#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// What a rank's kernels know of the group: the same in every call, so that recordings can keep it.
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
// `rank` waited for `missing` in vain.
constexpr uint64_t TimedOut(int rank, int missing) {
  return 2 | static_cast<uint64_t>(rank) << 8 | static_cast<uint64_t>(missing) << 16;
}
constexpr int WaitingRank(uint64_t stop) { return static_cast<int>(stop >> 8 & 0xff); }
constexpr int MissingRank(uint64_t stop) { return static_cast<int>(stop >> 16 & 0xff); }

// What a rank remembers from call to call, in its staging memory, where a recording looks it up in
// each replay. Kernels alone change it, but for shares_gpu, which is the host's.
struct PeerState {
  uint64_t num_calls;
  uint64_t failed;
  uint64_t last_look_ns;      // at the stop word, by whichever thread
  uint32_t num_begun_blocks;  // of the call under way
  uint32_t shares_gpu;        // not 0: with another rank, of this group or of another one
};

// Loads the kernels for so many ranks to the device's GPU. At the first launch it might wait for a
// kernel that waits for another rank.
void LoadOneShot(Device& device, int num_ranks);
void LoadTwoShot(Device& device, int num_ranks);

// x = sum over the ranks of x, in place; plan.num_vecs vectors have x's elements.
void LaunchOneShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x);
// whole = the parts of all ranks behind each other, each of plan.num_vecs whole vectors.
void LaunchGather(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                  const void* part, void* whole);
void LaunchTwoShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x);

}  // namespace beamline::cuda
