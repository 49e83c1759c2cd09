// LayerNorm and RMSNorm with the residual addition fused.
#include <type_traits>

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/cuda/rows/row_ops.h"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 1024;
// A warp a row, without barriers: for many rows whose parts a thread holds in registers.
constexpr int kRowWarps = 4;  // of a block
constexpr int kMostWarpBytes = 2048;
constexpr int kLeastWarpRows = 16;  // of a multiprocessor

template <typename T>
struct NormArgs {
  const T* x;         // [num_rows, hidden_size]
  const T* residual;  // as x; may be null
  T* sum;             // as x; may be null
  const T* addend;    // as x; may be null
  T* y;               // as x
  int64_t x_stride, residual_stride, sum_stride, addend_stride, y_stride;
  RowNorm<T> norm;
  bool before_product;  // as NormBeforeProduct
};

// kSize columns of a row, the residual added and `sum` written. Both loads are under way together.
template <int kSize, typename T>
__device__ void LoadSum(const NormArgs<T>& args, int64_t i, int column, float (&values)[kSize]) {
  const auto part = [column](const T* row) {
    return *reinterpret_cast<const Vec<T, kSize>*>(row + column);
  };
  const Vec<T, kSize> x = part(args.x + i * args.x_stride);
  Vec<T, kSize> residual;
  if (args.residual != nullptr) residual = part(args.residual + i * args.residual_stride);
#pragma unroll
  for (int j = 0; j < kSize; ++j) values[j] = ToFloat(x.values[j]);
  if (args.residual != nullptr) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] += ToFloat(residual.values[j]);
  }
  if (args.sum != nullptr) StoreFloats<kSize>(values, args.sum + i * args.sum_stride + column);
}

// y = norm(x + residual) * gain + bias + addend. The row waits between the mean, the variance and
// the output in registers (kHeld) or in shared memory; with kHoldsGain gain and bias are in
// registers before the kernel's turn; each thread reads and writes the same
// elements, so that y may alias x or addend. Grid: a block per row; shared memory unless kHeld:
// hidden_size floats. Bound by memory: x and residual read once, sum and y written once.
template <typename T, int kSize, bool kHeld, bool kHoldsGain>
__global__ void NormKernel(NormArgs<T> args) {
  extern __shared__ float shared[];
  const int64_t i = blockIdx.x;
  static_assert(!kHoldsGain || (kHeld && kSize == kVecSize<T>));
  [[maybe_unused]] HeldGain<T> held;
  if constexpr (kHoldsGain) {
    held.Load(args.norm, static_cast<int>(threadIdx.x) * kSize);
  } else if (i == 0) {
    PrefetchRow(args.norm.gain, args.norm.hidden_size, threadIdx.x, blockDim.x);
    if (args.norm.bias != nullptr) {
      PrefetchRow(args.norm.bias, args.norm.hidden_size, threadIdx.x, blockDim.x);
    }
  }
  if (args.before_product) LetNextKernelCome();
  WaitForEarlierKernels();
  std::conditional_t<kHeld, HeldRow<kSize>, SharedRow> row;
  if constexpr (!kHeld) row.values = shared;
  float total = 0.0f;
  for (int column = threadIdx.x * kSize; column < args.norm.hidden_size;
       column += blockDim.x * kSize) {
    float values[kSize];
    LoadSum<kSize>(args, i, column, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      total += values[j];
      row.At(column, j) = values[j];
    }
  }
  const T* const addend = args.addend == nullptr ? nullptr : args.addend + i * args.addend_stride;
  T* const y = args.y + i * args.y_stride;
  if constexpr (kHoldsGain) {
    NormalizeRow<kSize>(args.norm, row, total, held, y, addend);
  } else {
    NormalizeRow<kSize>(args.norm, row, total, StoredGain<T>{args.norm}, y, addend);
  }
}

// The same by a warp a row, of at most kChunks accesses of a thread, all of whose loads are under
// way together. Grid: a block per kRowWarps rows.
template <typename T, int kChunks>
__global__ void __launch_bounds__(kRowWarps* kWarpSize)
    NormWarpKernel(NormArgs<T> args, int64_t num_rows) {
  constexpr int kSize = kVecSize<T>;
  using Chunk = Vec<T, kSize>;
  const RowNorm<T>& norm = args.norm;
  const int64_t i = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / kWarpSize;
  const int begin = static_cast<int>(threadIdx.x) % kWarpSize * kSize;
  constexpr int kStep = kWarpSize * kSize;
  WaitForEarlierKernels();
  if (i >= num_rows) return;
  const auto load = [&](const T* row, Chunk(&chunks)[kChunks]) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = begin + c * kStep;
      if (column < norm.hidden_size) chunks[c] = *reinterpret_cast<const Chunk*>(row + column);
    }
  };
  Chunk x[kChunks] = {}, residual[kChunks] = {};
  load(args.x + i * args.x_stride, x);
  if (args.residual != nullptr) load(args.residual + i * args.residual_stride, residual);
  float values[kChunks][kSize];
  float total = 0.0f;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[c][j] = ToFloat(x[c].values[j]) + ToFloat(residual[c].values[j]);
      total += values[c][j];
    }
  }
  const auto store = [&](T* row) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = begin + c * kStep;
      if (column < norm.hidden_size) StoreFloats<kSize>(values[c], row + column);
    }
  };
  if (args.sum != nullptr) store(args.sum + i * args.sum_stride);

  const float count = static_cast<float>(norm.hidden_size);
  const float mean = norm.centred ? WarpSum(total) / count : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (begin + c * kStep >= norm.hidden_size) break;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[c][j] -= mean;
      squares += values[c][j] * values[c][j];
    }
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / count + norm.epsilon);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = begin + c * kStep;
    if (column >= norm.hidden_size) break;
    float gain[kSize], bias[kSize] = {};
    LoadFloats<kSize>(norm.gain + column, gain);
    if (norm.bias != nullptr) LoadFloats<kSize>(norm.bias + column, bias);
    if (args.addend != nullptr) {
      float added[kSize];
      LoadFloats<kSize>(args.addend + i * args.addend_stride + column, added);
#pragma unroll
      for (int j = 0; j < kSize; ++j) bias[j] += added[j];
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[c][j] = values[c][j] * scale * gain[j] + bias[j];
  }
  store(args.y + i * args.y_stride);
}

// False where rows are too few or too long.
template <typename T>
bool LaunchWarps(Device& device, const NormArgs<T>& args, int64_t num_rows) {
  constexpr int kAccessBytes = kWarpSize * 16;
  constexpr int kMostChunks = kMostWarpBytes / kAccessBytes;
  static_assert(kMostChunks == 4);
  const int64_t bytes = int64_t{args.norm.hidden_size} * static_cast<int64_t>(sizeof(T));
  // A warp sums a row in another order than a block does.
  if (device.batch_invariant() || bytes > kMostWarpBytes ||
      num_rows < int64_t{kLeastWarpRows} * device.num_multiprocessors()) {
    return false;
  }
  const auto launch = [&]<int kChunks>() {
    LaunchOverlapped(device, "Norm", NormWarpKernel<T, kChunks>, CeilDiv(num_rows, kRowWarps),
                     kRowWarps * kWarpSize, /*shared_bytes=*/0, args, num_rows);
  };
  switch (CeilDiv(bytes, kAccessBytes)) {
    case 1:
      launch.template operator()<1>();
      break;
    case 2:
      launch.template operator()<2>();
      break;
    case 3:
      launch.template operator()<3>();
      break;
    default:
      launch.template operator()<kMostChunks>();
  }
  return true;
}

template <typename T, int kSize>
void Launch(Device& device, const NormArgs<T>& args, int64_t num_rows) {
  const int hidden_size = args.norm.hidden_size;
  const int threads = ThreadsFor(hidden_size / kSize, kMostThreads);
  if (hidden_size > threads * kSize) {
    const auto kernel = NormKernel<T, kSize, false, false>;
    const int64_t shared_bytes = SharedRowBytes(device, kernel, hidden_size);
    LaunchOverlapped(device, "Norm", kernel, num_rows, threads, shared_bytes, args);
    return;
  }
  if constexpr (kSize == kVecSize<T>) {
    // Many rows find the gain in L1.
    if (num_rows <= device.num_multiprocessors()) {
      LaunchOverlapped(device, "Norm", NormKernel<T, kSize, true, true>, num_rows, threads,
                       /*shared_bytes=*/0, args);
      return;
    }
  }
  LaunchOverlapped(device, "Norm", NormKernel<T, kSize, true, false>, num_rows, threads,
                   /*shared_bytes=*/0, args);
}

}  // namespace

int MostNormColumns(const Device& device) {
  const auto bytes = static_cast<int64_t>(device.properties().sharedMemPerBlockOptin);
  return static_cast<int>((bytes - kStaticBytes) / static_cast<int64_t>(sizeof(float)));
}

namespace {

void LaunchNorm(Device& device, const NormParams& params, bool before_product) {
  const int64_t num_rows = params.x.num_rows();
  if (num_rows == 0) return;
  bool vectorizable = true;
  for (const Tensor* tensor : {&params.x, &params.residual, &params.gain, &params.bias, &params.sum,
                               &params.addend, &params.y}) {
    vectorizable &= IsVectorizable(*tensor);
  }
  DispatchFloat(params.x.dtype, [&]<typename T>() {
    NormArgs<T> args;
    args.x = params.x.as<T>();
    args.residual = params.residual.as<T>();
    args.sum = params.sum.as<T>();
    args.addend = params.addend.as<T>();
    args.y = params.y.as<T>();
    args.x_stride = params.x.row_stride;
    args.residual_stride = params.residual.row_stride;
    args.sum_stride = params.sum.row_stride;
    args.addend_stride = params.addend.row_stride;
    args.y_stride = params.y.row_stride;
    args.before_product = before_product;
    args.norm =
        MakeRowNorm<T>({params.kind, params.gain, params.bias, params.epsilon}, params.x.dim(-1));
    if (!vectorizable) {
      Launch<T, 1>(device, args, num_rows);
    } else if (!LaunchWarps(device, args, num_rows)) {
      Launch<T, kVecSize<T>>(device, args, num_rows);
    }
  });
}

}  // namespace

void Compute(Device& device, const NormParams& params) {
  LaunchNorm(device, params, /*before_product=*/false);
}

void NormBeforeProduct(Device& device, const NormParams& params) {
  LaunchNorm(device, params, /*before_product=*/true);
}

}  // namespace beamline::cuda
