// How a sum over ranks is computed in their GPUs' memory: by which algorithm, by how many blocks,
// and where in a rank's staging memory what lies. Pure functions of sizes that all ranks share, so
// that all of them plan alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace beamline::cuda {

inline constexpr int kLeastPeerRanks = 2;
inline constexpr int kMostPeerRanks = 8;
inline constexpr int kMostPeerBlocks = 128;  // of one kernel; every GPU of sm_80 and newer has room
inline constexpr int64_t kPeerVecBytes = 16;  // elements travel in whole vectors of this size

// kOneShot: every rank sends all of its terms to all others, each 8 bytes with the number of the
// call beside them, and adds for itself: one way over the link, twice the bytes.
// kTwoShot: a rank adds one slice of the elements for all, and sends the sums: two ways, no byte
// twice.
enum class PeerAlgorithm : uint8_t { kOneShot, kTwoShot };

// The measured choice (docs/decisions/0024-peer-all-reduce.md) for this many bytes of x.
PeerAlgorithm ChoosePeerAlgorithm(int num_ranks, int64_t num_bytes);
// The bytes of x up to which the better of the two is faster than NCCL.
int64_t MostPeerBytes(int num_ranks);

// A rank's staging memory. Offsets in bytes; the memory is the rank's, what lies there the others
// have written.
struct PeerLayout {
  explicit PeerLayout(int num_ranks);

  // Vectors of the longest one-shot sum: the staging memory is about the same for all num_ranks.
  int64_t packet_vecs = 0;
  // Vectors of a slice of two-shot, the part of a tile that one rank adds.
  int64_t slice_vecs = 0;

  size_t state = 0;    // PeerState (peer_memory.cuh)
  size_t flags = 0;    // [kMostPeerBlocks, 2, kMostPeerRanks] 64-bit: a line of memory a block
  size_t packets = 0;  // [2, num_ranks, packet_vecs, 2] of 16 bytes, by the parity of the call
  size_t terms = 0;    // [kMostPeerBlocks, num_ranks, slice_vecs] vectors
  size_t sums = 0;     // as terms
  size_t num_bytes = 0;
};

// Which block computes what: `vecs_per_block` vectors from blockIdx.x * vecs_per_block on, in
// two-shot one tile of num_ranks slices after the other.
struct PeerPlan {
  PeerAlgorithm algorithm = PeerAlgorithm::kOneShot;
  int64_t num_vecs = 0;  // the last one may be a part of one
  int64_t vecs_per_block = 0;
  int blocks = 0;
  int threads = 0;
};

// REQUIRES: num_elements > 0, and for kOneShot FitsOneShot; 1 <= most_blocks <= kMostPeerBlocks.
PeerPlan PlanPeerSum(PeerAlgorithm algorithm, int num_ranks, int most_blocks, int64_t num_bytes);

bool FitsOneShot(int num_ranks, int64_t num_bytes);

}  // namespace beamline::cuda
