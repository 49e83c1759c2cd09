// Products of one row and a large weight. A step of one request takes as long as reading its
// weights. So the reads must neither stop between two kernels nor wait for registers. Each warp has
// a ring of buffers in shared memory, which the copy engine fills with pieces of its features'
// rows. The first round of copies starts as soon as the previous kernel leaves a multiprocessor.
// Meanwhile every block computes the row's norm.
#include "kernels/cuda/products/stream_product.h"

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/rows/row_norm.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kChunk = 8;                                  // elements of a 16-byte access
constexpr int kPieceChunks = 4;                            // accesses of a lane
constexpr int kPiece = kPieceChunks * kWarpSize * kChunk;  // elements of a copy
// 160 KiB, so that two blocks never share a multiprocessor while another has none.
constexpr int kPieces = 5;
static_assert(int64_t{kWarps} * kPieces * kPiece * 2 == kStreamRingBytes);

// Starts the copy of `bytes` from global to shared memory. They count for `barrier`.
__device__ void CopyBytes(void* to, const void* from, int bytes, SharedBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(&barrier))
      : "memory");
}

// The pieces that a warp multiplies, in order: unit by unit, column by column, of one feature or of
// both.
template <typename T, typename Output>
struct Pieces {
  const SkinnyOperands<T>& args;
  const Output& output;
  int unit, unit_step;
  int column = 0;
  bool is_second = false;

  // Starts the copy of the next piece, if there is one. Called by one lane.
  __device__ void CopyNext(T* to, SharedBarrier& barrier) {
    if (unit >= args.num_units) return;
    const int feature = is_second ? output.Second(unit) : output.First(unit);
    const int bytes = min(kPiece, args.in_features - column) * static_cast<int>(sizeof(T));
    ArriveAndExpect(barrier, bytes);
    CopyBytes(to, args.Row(feature) + column, bytes, barrier);
    if (Output::kPaired) {
      is_second = !is_second;
      if (is_second) return;
    }
    column += kPiece;
    if (column < args.in_features) return;
    column = 0;
    unit += unit_step;
  }
};

// A lane's part of the product of x and a piece, whose columns start at `column`.
template <typename T>
__device__ float MultiplyPiece(const T* piece, const T* x, int column, int in_features) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float sums[kPieceChunks] = {};
#pragma unroll
  for (int c = 0; c < kPieceChunks; ++c) {
    const int at = (c * kWarpSize + lane) * kChunk;
    if (column + at >= in_features) break;
    float a[kChunk], b[kChunk];
    LoadFloats<kChunk>(piece + at, a);
    LoadFloats<kChunk>(x + column + at, b);
#pragma unroll
    for (int j = 0; j < kChunk; ++j) sums[c] += a[j] * b[j];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The norm of the row, applied on its way to shared memory.
template <typename T>
struct InputNorm {
  RowNorm<T> norm;  // no norm if its gain is null
  T* normed;        // [in_features]; the first block writes the normalised row to it
};

// A row of T in shared memory, before its norm (row_norm.cuh).
template <typename T>
struct TypedRow {
  const T* values;

  __device__ float At(int column, int j) const { return ToFloat(values[column + j]); }
};

// Loads x to shared memory and normalises it there. All threads of a block call it.
template <typename T>
__device__ void LoadRow(const SkinnyOperands<T>& args, const InputNorm<T>& by, T* row) {
  const int begin = static_cast<int>(threadIdx.x) * kChunk;
  constexpr int kStep = kThreads * kChunk;
  const auto copy = [](const T* from, T* to) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  };
  for (int at = begin; at < args.in_features; at += kStep) copy(args.x + at, row + at);
  if (by.norm.gain != nullptr) {
    float total = 0.0f;
    for (int at = begin; by.norm.centred && at < args.in_features; at += kStep) {
#pragma unroll
      for (int j = 0; j < kChunk; ++j) total += ToFloat(row[at + j]);
    }
    NormalizeRow<kChunk>(by.norm, TypedRow<T>{row}, total, StoredGain<T>{by.norm}, row);
    if (blockIdx.x == 0) {
      for (int at = begin; at < args.in_features; at += kStep) copy(row + at, by.normed + at);
    }
  }
  __syncthreads();
}

// Grid: one block per multiprocessor, whose warps take the units in turn. Bound by memory: the
// weight is read once.
template <typename T, typename Output>
__global__ void __launch_bounds__(kThreads)
    StreamKernel(SkinnyOperands<T> args, Output output, InputNorm<T> input_norm) {
  extern __shared__ uint4 memory[];  // the rings, then x
  __shared__ SharedBarrier barriers[kWarps][kPieces];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  T* const ring = reinterpret_cast<T*>(memory) + warp * kPieces * kPiece;
  T* const x = reinterpret_cast<T*>(memory) + kWarps * kPieces * kPiece;
  const int first_unit = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int unit_step = kWarps * static_cast<int>(gridDim.x);
  Pieces<T, Output> pieces{args, output, first_unit, unit_step};
  if (lane == 0) {
    for (SharedBarrier& barrier : barriers[warp]) InitBarrier(barrier, 1);
    PublishBarriers();
    for (int p = 0; p < kPieces; ++p) pieces.CopyNext(ring + p * kPiece, barriers[warp][p]);
    if (first_unit < args.num_units) output.Prefetch(first_unit);
  }
  __syncwarp();
  WaitForEarlierKernels();
  LoadRow(args, input_norm, x);

  Ring<kPieces> place;
  const auto next = [&](int column) {
    WaitFor(barriers[warp][place.at], place.parity);
    const float sum = MultiplyPiece(ring + place.at * kPiece, x, column, args.in_features);
    __syncwarp();
    if (lane == 0) pieces.CopyNext(ring + place.at * kPiece, barriers[warp][place.at]);
    place.Advance();
    return sum;
  };
  for (int unit = first_unit; unit < args.num_units; unit += unit_step) {
    typename Output::Inputs inputs = {};
    if (lane == 0) {
      inputs = output.LoadWeights(/*row=*/0, unit);
      output.LoadRest(/*row=*/0, unit, inputs);
    }
    float sum = 0.0f, second = 0.0f;
    for (int column = 0; column < args.in_features; column += kPiece) {
      sum += next(column);
      if (Output::kPaired) second += next(column);
    }
    sum = WarpSum(sum);
    if (Output::kPaired) second = WarpSum(second);
    if (lane == 0) output.Store(/*row=*/0, unit, inputs, sum, second);
  }
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  const int64_t shared_bytes =
      kStreamRingBytes + weight.in_features() * static_cast<int64_t>(SizeOf(weight.dtype()));
  const auto launch = [&]<typename T>() {
    WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      const auto kernel = StreamKernel<T, Output>;
      const InputNorm<T> norm = {MakeRowNorm<T>(params.input_norm, weight.in_features()),
                                 params.normed.template as<T>()};
      AllowShared(device, kernel, shared_bytes, kStreamStaticBytes);
      LaunchOverlapped(device, "a product of one row", kernel,
                       int64_t{device.num_multiprocessors()}, kThreads, shared_bytes,
                       MakeSkinnyOperands<T>(params.x, weight, Output::kPaired), output, norm);
    });
  };
  weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

void StreamProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  Multiply(device, params, weight);
}

void StreamProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  Multiply(device, params, weight);
}

}  // namespace beamline::cuda
