// Plans a sum over ranks in their GPUs' memory: the algorithm, the blocks, and the layout of a
// rank's staging memory. Pure functions of sizes that all ranks share, so that all ranks have the
// same plan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace beamline::cuda {

inline constexpr int kLeastPeerRanks = 2;
inline constexpr int kMostPeerRanks = 8;
inline constexpr int kMostPeerBlocks = 128;   // of one kernel; fits on every GPU of sm_80 and newer
inline constexpr int64_t kPeerVecBytes = 16;  // elements are sent in whole vectors of this size

// kOneShot: every rank sends all of its terms to all others, and adds for itself. Each 8 bytes are
// sent with the number of the call: one way over the link, twice the bytes.
// kTwoShot: each rank adds one slice of the elements for all ranks, and sends the sums: two ways,
// no byte twice.
enum class PeerAlgorithm : uint8_t { kOneShot, kTwoShot };

// The faster algorithm for this many bytes of x, as measured
// (docs/decisions/0024-peer-all-reduce.md).
PeerAlgorithm ChoosePeerAlgorithm(int num_ranks, int64_t num_bytes);
// Up to this many bytes of x, the faster algorithm is faster than NCCL.
int64_t MostPeerBytes(int num_ranks);

// A rank's staging memory. Offsets are in bytes. The rank owns the memory, and the other ranks
// write to it.
struct PeerLayout {
  explicit PeerLayout(int num_ranks);

  // Limit of the vectors of a one-shot sum. Staging memory is about the same size for all
  // num_ranks.
  int64_t packet_vecs = 0;
  // Vectors of a slice in two-shot: the part of a tile that one rank adds.
  int64_t slice_vecs = 0;

  size_t state = 0;    // PeerState (peer_memory.cuh)
  size_t flags = 0;    // [kMostPeerBlocks, 2, kMostPeerRanks] 64-bit: one line of memory per block
  size_t packets = 0;  // [2, num_ranks, 2, packet_vecs] of 16 bytes: parity of the call, rank, half
  size_t terms = 0;    // [kMostPeerBlocks, num_ranks, slice_vecs] vectors
  size_t sums = 0;     // as terms
  size_t num_bytes = 0;
};

// The work of each block: `vecs_per_block` vectors from blockIdx.x * vecs_per_block on. Two-shot
// processes them one tile of num_ranks slices after the other.
struct PeerPlan {
  PeerAlgorithm algorithm = PeerAlgorithm::kOneShot;
  int64_t num_vecs = 0;  // the last one may be partial
  int64_t vecs_per_block = 0;
  int blocks = 0;
  int threads = 0;
};

// REQUIRES: num_bytes > 0; FitsOneShot for kOneShot; 1 <= most_blocks <= kMostPeerBlocks.
PeerPlan PlanPeerSum(PeerAlgorithm algorithm, int num_ranks, int most_blocks, int64_t num_bytes);

// Whether x of `num_bytes` bytes fits into the packets of one-shot.
bool FitsOneShot(int num_ranks, int64_t num_bytes);

}  // namespace beamline::cuda
