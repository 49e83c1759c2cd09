// Sums in which every rank sends its terms to all others and adds for itself. Also the gathering of
// parts, which are sent in the same way and not added.
#include "kernels/cuda/communication/peer_kernels.h"
#include "kernels/cuda/communication/peer_memory.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostOneShotThreads = 256;

// Grid: plan.blocks. Block b has `vecs_per_block` vectors. It depends on block b of the other ranks
// and on no other block, so blocks need not run at the same time. Bound by the link: twice the
// bytes of x to every other rank. Below some 100 KB bound by the latencies of a store to the other
// GPU and of a load from L2.
template <typename T, int kMostRanks>
__global__ void __launch_bounds__(kMostOneShotThreads)
    OneShotKernel(const __grid_constant__ PeerGroupArgs group, PeerArray<T> x, int64_t num_vecs,
                  int64_t vecs_per_block) {
  WaitForEarlierKernelsOfRank(group);
  const int64_t first = blockIdx.x * vecs_per_block + threadIdx.x;
  const int64_t end = min(num_vecs, (blockIdx.x + 1) * vecs_per_block);
  // Loaded while the number of the call is.
  PeerVec own = {};
  if (first < end) own = x.Load(first);
  const PeerCall call(group);
  if (call.failed()) return;
  const PeerPackets packets(group, call);
  for (int64_t vec = first; vec < end;) {
    packets.Send(vec, own);
    vec += blockDim.x;
    if (vec < end) own = x.Load(vec);
  }
  if (threadIdx.x == 0) call.CountBlock();
  PeerWait wait(group);
  for (int64_t vec = first; vec < end; vec += blockDim.x) {
    PeerSum<T> sum;
    if (!packets.Receive<kMostRanks>(vec, x.Load(vec), wait, sum)) return;
    x.Store(vec, sum.Rounded());
  }
}

// whole = the ranks' parts of num_vecs vectors, one after the other. Grid and bound as above.
__global__ void __launch_bounds__(kMostOneShotThreads)
    GatherKernel(const __grid_constant__ PeerGroupArgs group, const PeerVec* part, PeerVec* whole,
                 int64_t num_vecs, int64_t vecs_per_block) {
  WaitForEarlierKernelsOfRank(group);
  const int64_t first = blockIdx.x * vecs_per_block + threadIdx.x;
  const int64_t end = min(num_vecs, (blockIdx.x + 1) * vecs_per_block);
  PeerVec own = {};
  if (first < end) own = part[first];
  const PeerCall call(group);
  if (call.failed()) return;
  const PeerPackets packets(group, call);
  for (int64_t vec = first; vec < end;) {
    packets.Send(vec, own);
    whole[group.rank * num_vecs + vec] = own;
    vec += blockDim.x;
    if (vec < end) own = part[vec];
  }
  if (threadIdx.x == 0) call.CountBlock();
  PeerWait wait(group);
  for (int64_t vec = first; vec < end; vec += blockDim.x) {
    for (int r = 0; r < group.size; ++r) {
      PeerVec bits;
      if (r == group.rank) continue;
      if (!packets.Receive(vec, r, wait, bits)) return;
      whole[r * num_vecs + vec] = bits;
    }
  }
}

}  // namespace

void LoadOneShot(Device& device, int num_ranks) {
  ForEachFloat([&]<typename T>() {
    DispatchRanks(num_ranks,
                  [&]<int kMostRanks>() { LoadKernel(device, OneShotKernel<T, kMostRanks>); });
  });
  LoadKernel(device, GatherKernel);
}

void LaunchGather(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                  const void* part, void* whole) {
  LaunchOverlapped(device, "a gathering of parts", GatherKernel, plan.blocks, plan.threads,
                   /*shared_bytes=*/0, group, static_cast<const PeerVec*>(part),
                   static_cast<PeerVec*>(whole), plan.num_vecs, plan.vecs_per_block);
}

void LaunchOneShot(Device& device, const PeerGroupArgs& group, const PeerPlan& plan,
                   const Tensor& x) {
  DispatchFloat(x.dtype, [&]<typename T>() {
    DispatchRanks(group.size, [&]<int kMostRanks>() {
      LaunchOverlapped(device, "a one-shot sum over ranks", OneShotKernel<T, kMostRanks>,
                       plan.blocks, plan.threads, /*shared_bytes=*/0, group, ArrayOf<T>(x),
                       plan.num_vecs, plan.vecs_per_block);
    });
  });
}

}  // namespace beamline::cuda
