#include "kernels/cuda/communication/peer_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace beamline::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kOneShotThreads = 256;
constexpr int kTwoShotThreads = 512;
constexpr int64_t kRegionAlignment = 256;

// Limit of what one rank sends in one call. It holds for any number of ranks, so a rank among many
// sends no more than one of two.
constexpr int64_t kOneShotSentVecs = (int64_t{1} << 20) / kPeerVecBytes;
constexpr int64_t kTileVecs = (int64_t{64} << 10) / kPeerVecBytes;

// Measured with two ranks. Values for more ranks are computed from these measurements: the bytes
// sent by one-shot grow with the number of ranks, those of two-shot hardly do.
constexpr int64_t kOneShotSentBytesOfTwo = int64_t{1} << 20;
constexpr int64_t kOneShotSentBytes = int64_t{768} << 10;
constexpr int64_t kMostBytesOfTwo = int64_t{64} << 20;  // the longest measured
constexpr int64_t kMostBytes = int64_t{4} << 20;

}  // namespace

PeerAlgorithm ChoosePeerAlgorithm(int num_ranks, int64_t num_bytes) {
  const int64_t most = num_ranks == 2 ? kOneShotSentBytesOfTwo : kOneShotSentBytes;
  return num_bytes * (num_ranks - 1) <= most ? PeerAlgorithm::kOneShot : PeerAlgorithm::kTwoShot;
}

int64_t MostPeerBytes(int num_ranks) { return num_ranks == 2 ? kMostBytesOfTwo : kMostBytes; }

PeerLayout::PeerLayout(int num_ranks) {
  BEAMLINE_CHECK(num_ranks >= kLeastPeerRanks && num_ranks <= kMostPeerRanks);
  packet_vecs = kOneShotSentVecs / (num_ranks - 1);
  slice_vecs = kTileVecs / num_ranks;
  const auto take = [this](int64_t bytes) {
    const size_t begin = num_bytes;
    num_bytes += static_cast<size_t>(RoundUp(bytes, kRegionAlignment));
    return begin;
  };
  state = take(kRegionAlignment);
  flags = take(int64_t{kMostPeerBlocks} * 2 * kMostPeerRanks * int64_t{sizeof(uint64_t)});
  packets = take(2 * num_ranks * packet_vecs * 2 * kPeerVecBytes);
  terms = take(kMostPeerBlocks * num_ranks * slice_vecs * kPeerVecBytes);
  sums = take(kMostPeerBlocks * num_ranks * slice_vecs * kPeerVecBytes);
}

bool FitsOneShot(int num_ranks, int64_t num_bytes) {
  return CeilDiv(num_bytes, kPeerVecBytes) <= kOneShotSentVecs / (num_ranks - 1);
}

PeerPlan PlanPeerSum(PeerAlgorithm algorithm, int num_ranks, int most_blocks, int64_t num_bytes) {
  BEAMLINE_CHECK(num_bytes > 0 && most_blocks >= 1 && most_blocks <= kMostPeerBlocks);
  const bool one_shot = algorithm == PeerAlgorithm::kOneShot;
  BEAMLINE_CHECK(!one_shot || FitsOneShot(num_ranks, num_bytes));
  PeerPlan plan;
  plan.algorithm = algorithm;
  plan.num_vecs = CeilDiv(num_bytes, kPeerVecBytes);
  // One vector per thread (in two-shot one of each slice), until all blocks are in use.
  const int64_t vecs_per_thread = one_shot ? 1 : num_ranks;
  const int most_threads = one_shot ? kOneShotThreads : kTwoShotThreads;
  const int64_t wanted = CeilDiv(plan.num_vecs, vecs_per_thread * most_threads);
  const int64_t blocks = std::min<int64_t>(wanted, most_blocks);
  // Whole warps, so that accesses are whole lines.
  plan.vecs_per_block = RoundUp(CeilDiv(plan.num_vecs, blocks), int64_t{kWarp});
  plan.blocks = static_cast<int>(CeilDiv(plan.num_vecs, plan.vecs_per_block));
  plan.threads = static_cast<int>(std::min<int64_t>(
      most_threads, RoundUp(CeilDiv(plan.vecs_per_block, vecs_per_thread), int64_t{kWarp})));
  return plan;
}

}  // namespace beamline::cuda
