// Sums in which every rank sends its terms to all others and adds for itself; with the norm that
// follows them in one kernel.
#include "kernels/cuda/communication/peer_kernels.h"
#include "kernels/cuda/communication/peer_memory.cuh"
#include "kernels/cuda/rows/row_norm.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostOneShotThreads = 256;
constexpr int kMostNormThreads = 1024;

// Grid: plan.blocks; block b has `vecs_per_block` vectors. A block depends on block b of the other
// ranks and on no other, so blocks need not run at the same time. Bound by the link: twice the
// bytes of x to every other rank; below some 100 KB by a store's way there and a load's from L2.
template <typename T, int kMostRanks>
__global__ void __launch_bounds__(kMostOneShotThreads)
    OneShotKernel(const __grid_constant__ PeerGroupArgs group, PeerArray<T> x, int64_t num_vecs,
                  int64_t vecs_per_block) {
  WaitForEarlierKernels();
  const int64_t first = blockIdx.x * vecs_per_block + threadIdx.x;
  const int64_t end = min(num_vecs, (blockIdx.x + 1) * vecs_per_block);
  // On its way while the call's number is.
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

template <typename T>
struct SumAndNormArgs {
  PeerArray<T> x;     // [num_rows, hidden_size]
  const T* residual;  // as x; may be null
  T* sum;             // as x; may be null
  T* y;               // as x
  int64_t residual_stride, sum_stride, y_stride;
  int64_t num_rows;
  RowNorm<T> norm;
};

// Rows b, b + gridDim.x, ... are block b's, a vector of each a thread's. What it computes of the
// summed rows is what NormKernel (rows/norm.cu) does, in the same order, so that both have the same
// bits. Bound as OneShotKernel, and by the two reductions of a block.
template <typename T, int kMostRanks>
__global__ void __launch_bounds__(kMostNormThreads)
    SumAndNormKernel(const __grid_constant__ PeerGroupArgs group, SumAndNormArgs<T> args) {
  constexpr int kSize = kVecSize<T>;
  if (blockIdx.x == 0) {
    PrefetchRow(args.norm.gain, args.norm.hidden_size, threadIdx.x, blockDim.x);
    if (args.norm.bias != nullptr) {
      PrefetchRow(args.norm.bias, args.norm.hidden_size, threadIdx.x, blockDim.x);
    }
  }
  WaitForEarlierKernels();
  const int64_t row_vecs = args.norm.hidden_size / kSize;
  const int column = threadIdx.x * kSize;
  const bool has_part = threadIdx.x < row_vecs;
  PeerVec own = {};
  if (has_part) own = args.x.Load(blockIdx.x * row_vecs + threadIdx.x);
  const PeerCall call(group);
  if (call.failed()) return;
  const PeerPackets packets(group, call);
  for (int64_t i = blockIdx.x; has_part && i < args.num_rows;) {
    packets.Send(i * row_vecs + threadIdx.x, own);
    i += gridDim.x;
    if (i < args.num_rows) own = args.x.Load(i * row_vecs + threadIdx.x);
  }
  if (threadIdx.x == 0) call.CountBlock();
  PeerWait wait(group);
  for (int64_t i = blockIdx.x; i < args.num_rows; i += gridDim.x) {
    HeldRow<kSize> row;
    float total = 0.0f;
    bool goes_on = true;
    if (has_part) {
      const int64_t vec = i * row_vecs + threadIdx.x;
      PeerSum<T> sum;
      goes_on = packets.Receive<kMostRanks>(vec, args.x.Load(vec), wait, sum);
      if (goes_on) {
        const PeerVec rounded = sum.Rounded();
        args.x.Store(vec, rounded);
        T values[kSize];
        UnpackVec(rounded, values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) row.values[j] = ToFloat(values[j]);
        if (args.residual != nullptr) {
          float residual[kSize];
          LoadFloats<kSize>(args.residual + i * args.residual_stride + column, residual);
#pragma unroll
          for (int j = 0; j < kSize; ++j) row.values[j] += residual[j];
        }
        if (args.sum != nullptr) {
          StoreFloats<kSize>(row.values, args.sum + i * args.sum_stride + column);
        }
#pragma unroll
        for (int j = 0; j < kSize; ++j) total += row.values[j];
      }
    }
    // Also the barrier between two rows' reductions.
    if (!__syncthreads_and(goes_on)) return;
    NormalizeRow<kSize>(args.norm, row, total, args.y + i * args.y_stride);
  }
}

template <typename T>
PeerArray<T> ArrayOf(const Tensor& x) {
  return {x.as<T>(), x.num_elements(), reinterpret_cast<uintptr_t>(x.data) % kPeerVecBytes == 0};
}

}  // namespace

void LoadOneShot(Device& device, int num_ranks) {
  ForEachFloat([&]<typename T>() {
    DispatchRanks(num_ranks, [&]<int kMostRanks>() {
      LoadKernel(device, OneShotKernel<T, kMostRanks>);
      LoadKernel(device, SumAndNormKernel<T, kMostRanks>);
    });
  });
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

bool TakesSumAndNorm(const PeerLayout& layout, const NormParams& norm) {
  for (const Tensor* tensor :
       {&norm.x, &norm.residual, &norm.gain, &norm.bias, &norm.sum, &norm.y}) {
    if (!IsVectorizable(*tensor)) return false;
  }
  const int64_t hidden_size = norm.x.dim(-1);
  const int64_t vec_size = kPeerVecBytes / static_cast<int64_t>(SizeOf(norm.x.dtype));
  return norm.x.row_stride == hidden_size && hidden_size <= kMostNormThreads * vec_size &&
         norm.x.num_elements() <= layout.packet_vecs * vec_size;
}

void LaunchSumAndNorm(Device& device, const PeerGroupArgs& group, int most_blocks,
                      const NormParams& norm) {
  DispatchFloat(norm.x.dtype, [&]<typename T>() {
    SumAndNormArgs<T> args;
    args.x = ArrayOf<T>(norm.x);
    args.residual = norm.residual.as<T>();
    args.sum = norm.sum.as<T>();
    args.y = norm.y.as<T>();
    args.residual_stride = norm.residual.row_stride;
    args.sum_stride = norm.sum.row_stride;
    args.y_stride = norm.y.row_stride;
    args.num_rows = norm.x.num_rows();
    args.norm = MakeRowNorm<T>({norm.kind, norm.gain, norm.bias, norm.epsilon}, norm.x.dim(-1));
    const int64_t blocks = args.num_rows < most_blocks ? args.num_rows : most_blocks;
    const int threads = ThreadsFor(norm.x.dim(-1) / kVecSize<T>, kMostNormThreads);
    DispatchRanks(group.size, [&]<int kMostRanks>() {
      LaunchOverlapped(device, "a sum over ranks with a norm", SumAndNormKernel<T, kMostRanks>,
                       blocks, threads, /*shared_bytes=*/0, group, args);
    });
  });
}

}  // namespace beamline::cuda
