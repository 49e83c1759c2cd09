// Sums in which each rank adds one slice of the elements for all ranks: reduce-scatter, then
// all-gather.
#include "kernels/cuda/communication/peer_kernels.h"
#include "kernels/cuda/communication/peer_memory.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostTwoShotThreads = 512;
constexpr int kUnroll = 4;     // vectors of a thread in flight together
constexpr int kTileBits = 20;  // of a flag's value count a block's tiles; the others count calls

// A block's part of the staging memory of each rank, and its flags. Slices of terms go to the rank
// that adds them; slices of sums come back from that rank.
class PeerSlices {
 public:
  __device__ explicit PeerSlices(const PeerGroupArgs& group) : group_(group) {}

  // In the memory of rank `to`, written by rank `from`.
  __device__ PeerVec* Terms(int to, int from) const { return Slice(group_.layout.terms, to, from); }
  __device__ PeerVec* Sums(int to, int from) const { return Slice(group_.layout.sums, to, from); }

  enum Kind { kTerms, kSums };
  // Tells all other ranks that this block's writes to them are complete. Has a barrier.
  __device__ void Tell(Kind kind, uint64_t value) const {
    __syncthreads();
    const int r = static_cast<int>(threadIdx.x);
    if (r < group_.size && r != group_.rank) RaiseFlag(Flag(kind, r, group_.rank), value);
  }
  // Waits until all other ranks have told so. Has a barrier. False: a wait has ended.
  __device__ bool Await(Kind kind, uint64_t value) const {
    const int r = static_cast<int>(threadIdx.x);
    bool goes_on = true;
    if (r < group_.size && r != group_.rank) {
      PeerWait wait(group_);
      while (goes_on && LookAtFlag(Flag(kind, group_.rank, r)) < value) goes_on = wait.GoesOn(r);
    }
    return __syncthreads_and(goes_on);
  }

 private:
  __device__ PeerVec* Slice(size_t area, int to, int from) const {
    const int64_t slice = int64_t{blockIdx.x} * group_.size + from;
    return reinterpret_cast<PeerVec*>(group_.memory[to] + area) + slice * group_.layout.slice_vecs;
  }
  __device__ uint64_t* Flag(Kind kind, int to, int from) const {
    return reinterpret_cast<uint64_t*>(group_.memory[to] + group_.layout.flags) +
           (int64_t{blockIdx.x} * 2 + kind) * kMostPeerRanks + from;
  }

  const PeerGroupArgs& group_;
};

// Calls move(i, value) with value = get(i), for i = 0 .. count - 1, divided over the block's
// threads. Fetches kUnroll values before it moves the first.
template <typename Get, typename Move>
__device__ void MoveVecs(int64_t count, const Get& get, const Move& move) {
  for (int64_t begin = threadIdx.x; begin < count; begin += int64_t{kUnroll} * blockDim.x) {
    PeerVec values[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = begin + int64_t{u} * blockDim.x;
      if (i < count) values[u] = get(i);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = begin + int64_t{u} * blockDim.x;
      if (i < count) move(i, values[u]);
    }
  }
}

// Grid: plan.blocks. Block b has `vecs_per_block` vectors. It processes them a tile at a time, with
// block b of the other ranks and no other block. Bound by the link: 2 (size - 1) / size of the
// bytes of x from each rank, and two exchanges of flags per tile.
//
// One set of staging memory is enough, in whatever order the ranks come. Rank A sends the terms of
// tile t + 1 to B when it has all sums of tile t. B sent its sums after a barrier that its threads
// passed when they had read A's terms. A sends its sums of tile t + 1 when it has all terms of tile
// t + 1. B sent its terms after a barrier that its threads passed when they had read the sums of
// tile t. The next call starts when all blocks of this one have ended. So the same holds from the
// last tile of a call to the first of the next, whatever tiles a block has.
template <typename T, int kMostRanks>
__global__ void __launch_bounds__(kMostTwoShotThreads)
    TwoShotKernel(const __grid_constant__ PeerGroupArgs group, PeerArray<T> x, int64_t num_vecs,
                  int64_t vecs_per_block) {
  WaitForEarlierKernelsOfRank(group);
  const PeerCall call(group);
  if (call.failed()) return;
  if (threadIdx.x == 0) call.CountBlock();
  const PeerSlices slices(group);
  const int64_t end = min(num_vecs, (blockIdx.x + 1) * vecs_per_block);
  const int64_t tile_vecs = group.layout.slice_vecs * group.size;
  uint64_t value = call.number() << kTileBits;  // grows with each tile and each call
  for (int64_t tile = blockIdx.x * vecs_per_block; tile < end; tile += tile_vecs) {
    ++value;
    const int64_t slice = CeilDiv(min(tile_vecs, end - tile), static_cast<int64_t>(group.size));
    const auto begin_of = [&](int r) { return tile + r * slice; };
    const auto count_of = [&](int r) { return min(slice, end - begin_of(r)); };  // may be negative
    // Each rank starts with a different one, so that not all send to the same rank.
    for (int step = 1; step < group.size; ++step) {
      const int r = (group.rank + step) % group.size;
      PeerVec* const to = slices.Terms(r, group.rank);
      MoveVecs(
          count_of(r), [&](int64_t i) { return x.Load(begin_of(r) + i); },
          [&](int64_t i, PeerVec bits) { to[i] = bits; });
    }
    slices.Tell(PeerSlices::kTerms, value);
    if (!slices.Await(PeerSlices::kTerms, value)) return;
    MoveVecs(
        count_of(group.rank),
        [&](int64_t i) {
          PeerVec terms[kMostRanks];
#pragma unroll
          for (int r = 0; r < kMostRanks; ++r) {
            if (r >= group.size) break;
            terms[r] = r == group.rank ? x.Load(begin_of(r) + i) : slices.Terms(group.rank, r)[i];
          }
          PeerSum<T> sum;
#pragma unroll
          for (int r = 0; r < kMostRanks; ++r) {
            if (r < group.size) sum.Add(r, terms[r]);
          }
          return sum.Rounded();
        },
        [&](int64_t i, PeerVec bits) {
          for (int step = 1; step < group.size; ++step) {
            slices.Sums((group.rank + step) % group.size, group.rank)[i] = bits;
          }
          x.Store(begin_of(group.rank) + i, bits);
        });
    slices.Tell(PeerSlices::kSums, value);
    if (!slices.Await(PeerSlices::kSums, value)) return;
    for (int step = 1; step < group.size; ++step) {
      const int r = (group.rank + step) % group.size;
      const PeerVec* const from = slices.Sums(group.rank, r);
      MoveVecs(
          count_of(r), [&](int64_t i) { return from[i]; },
          [&](int64_t i, PeerVec bits) { x.Store(begin_of(r) + i, bits); });
    }
  }
}

}  // namespace

void LoadTwoShot(Device& device, int num_ranks) {
  ForEachFloat([&]<typename T>() {
    DispatchRanks(num_ranks,
                  [&]<int kMostRanks>() { LoadKernel(device, TwoShotKernel<T, kMostRanks>); });
  });
}

void LaunchTwoShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x) {
  DispatchFloat(x.dtype, [&]<typename T>() {
    DispatchRanks(group.size, [&]<int kMostRanks>() {
      LaunchOverlapped(device, "a two-shot sum over ranks", TwoShotKernel<T, kMostRanks>,
                       plan.blocks, plan.threads, /*shared_bytes=*/0, group, ArrayOf<T>(x),
                       plan.num_vecs, plan.vecs_per_block);
    });
  });
}

}  // namespace beamline::cuda
