// Operators that move rows: embedding, gathering, unfolding, block copies.
#include <type_traits>

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/rows/row_norm.cuh"
#include "kernels/cuda/rows/row_ops.h"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int kMostGridY = 65535;

template <typename T>
struct EmbedArgs {
  const T* tokens;
  const T* positions;  // null: none
  const T* types;      // null: none
  int64_t token_stride, position_stride, type_stride;
  const int32_t* token_ids;     // [num_tokens]
  uint32_t last_token;          // of the table
  const int32_t* position_ids;  // [num_tokens]
  const int32_t* type_ids;      // [num_tokens]; null: all 0
  float token_scale;
  T* output;
  int64_t output_stride;
  int hidden_size;
  RowNorm<T> norm;  // read by EmbedNormKernel alone
};

// The rows that one token adds up; position and type may be null.
template <typename T>
struct TokenRows {
  const T* token;
  const T* position;
  const T* type;
};

// The token may be one that the step before has chosen out of an aborted collective's result, which
// is anything; what it reads lies in the table all the same.
template <typename T>
__device__ TokenRows<T> RowsOf(const EmbedArgs<T>& args, int64_t i) {
  const int64_t token = min(static_cast<uint32_t>(args.token_ids[i]), args.last_token);
  TokenRows<T> rows = {args.tokens + token * args.token_stride, nullptr, nullptr};
  if (args.positions != nullptr) {
    rows.position = args.positions + args.position_ids[i] * args.position_stride;
  }
  if (args.types != nullptr) {
    rows.type = args.types + (args.type_ids == nullptr ? 0 : args.type_ids[i]) * args.type_stride;
  }
  return rows;
}

// sum = token * scale + type + position, kSize columns.
template <int kSize, typename T>
__device__ void AddRows(const TokenRows<T>& rows, float token_scale, int column,
                        float (&sum)[kSize]) {
  LoadFloats<kSize>(rows.token + column, sum);
#pragma unroll
  for (int j = 0; j < kSize; ++j) sum[j] *= token_scale;
  for (const T* row : {rows.type, rows.position}) {
    if (row == nullptr) continue;
    float addend[kSize];
    LoadFloats<kSize>(row + column, addend);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum[j] += addend[j];
  }
}

// Grid: a block per token. Bound by memory: up to three rows read, one written.
template <typename T, int kSize>
__global__ void EmbedKernel(EmbedArgs<T> args) {
  WaitForEarlierKernels();
  const int64_t i = blockIdx.x;
  const TokenRows<T> rows = RowsOf(args, i);
  T* to = args.output + i * args.output_stride;
  for (int column = threadIdx.x * kSize; column < args.hidden_size; column += blockDim.x * kSize) {
    float sum[kSize];
    AddRows<kSize>(rows, args.token_scale, column, sum);
    StoreFloats<kSize>(sum, to + column);
  }
}

// The same with a norm, for which the sum waits in registers (kHeld) or in shared memory.
// Grid: a block per token; shared memory unless kHeld: hidden_size floats. Bound as EmbedKernel.
template <typename T, int kSize, bool kHeld>
__global__ void EmbedNormKernel(EmbedArgs<T> args) {
  extern __shared__ float shared[];
  WaitForEarlierKernels();
  const int64_t i = blockIdx.x;
  const TokenRows<T> rows = RowsOf(args, i);
  std::conditional_t<kHeld, HeldRow<kSize>, SharedRow> row;
  if constexpr (!kHeld) row.values = shared;
  float total = 0.0f;
  for (int column = threadIdx.x * kSize; column < args.hidden_size; column += blockDim.x * kSize) {
    float sum[kSize];
    AddRows<kSize>(rows, args.token_scale, column, sum);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      total += sum[j];
      row.At(column, j) = sum[j];
    }
  }
  NormalizeRow<kSize>(args.norm, row, total, StoredGain<T>{args.norm},
                      args.output + i * args.output_stride);
}

template <typename T, int kSize>
void LaunchEmbed(Device& device, const EmbedArgs<T>& args, int64_t num_tokens) {
  const int threads = ThreadsFor(args.hidden_size / kSize, kMostThreads);
  if (args.norm.gain == nullptr) {
    LaunchOverlapped(device, "Embed", EmbedKernel<T, kSize>, num_tokens, threads,
                     /*shared_bytes=*/0, args);
  } else if (args.hidden_size <= threads * kSize) {
    LaunchOverlapped(device, "Embed", EmbedNormKernel<T, kSize, true>, num_tokens, threads,
                     /*shared_bytes=*/0, args);
  } else {
    const int64_t shared_bytes =
        SharedRowBytes(device, EmbedNormKernel<T, kSize, false>, args.hidden_size);
    LaunchOverlapped(device, "Embed", EmbedNormKernel<T, kSize, false>, num_tokens, threads,
                     shared_bytes, args);
  }
}

// to[i] = from[rows[i]], rows of whole `Unit`s.
// Grid: a block per row. Bound by memory: every byte read and written once.
template <typename Unit>
__global__ void GatherKernel(const char* from, int64_t from_stride, const int32_t* rows, char* to,
                             int64_t to_stride, int units_per_row) {
  WaitForEarlierKernels();
  const auto* source = reinterpret_cast<const Unit*>(from + rows[blockIdx.x] * from_stride);
  auto* target = reinterpret_cast<Unit*>(to + blockIdx.x * to_stride);
  for (int i = threadIdx.x; i < units_per_row; i += blockDim.x) target[i] = source[i];
}

// The sequence whose rows hold this one: offsets[s] <= row < offsets[s + 1].
__device__ int SequenceOf(const int32_t* offsets, int num_sequences, int row) {
  int low = 0, high = num_sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Elements are moved as they are: Unit has their size.
// Grid: a block per token. Bound by memory: the input read kernel_size times, from the second on
// out of a cache, the output written once.
template <typename Unit>
__global__ void UnfoldKernel(const Unit* input, int64_t input_stride, const int32_t* offsets,
                             int num_sequences, int kernel_size, Unit* output,
                             int64_t output_stride, int width) {
  WaitForEarlierKernels();
  const int row = static_cast<int>(blockIdx.x);
  const int sequence = SequenceOf(offsets, num_sequences, row);
  const int first = offsets[sequence], last = offsets[sequence + 1];
  Unit* const to = output + row * output_stride;
  for (int i = threadIdx.x; i < width * kernel_size; i += blockDim.x) {
    const int column = i / kernel_size;
    const int from = row + i % kernel_size - kernel_size / 2;
    to[i] = from >= first && from < last ? input[from * input_stride + column] : Unit(0);
  }
}

// Grid: (pieces of a block, copies, keys and values). Bound by memory.
template <typename Unit>
__global__ void CopyBlocksKernel(char* keys, char* values, const BlockCopy* copies,
                                 int64_t block_bytes) {
  char* const base = blockIdx.z == 0 ? keys : values;
  const BlockCopy copy = copies[blockIdx.y];
  const auto* source = reinterpret_cast<const Unit*>(base + copy.source * block_bytes);
  auto* target = reinterpret_cast<Unit*>(base + copy.target * block_bytes);
  const int64_t units = block_bytes / static_cast<int64_t>(sizeof(Unit));
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < units) target[i] = source[i];
}

}  // namespace

void Compute(Device& device, const EmbedParams& params) {
  if (params.num_tokens == 0) return;
  bool vectorizable = true;
  for (const Tensor* tensor : {&params.output, &params.token_table, &params.position_table,
                               &params.type_table, &params.norm.gain, &params.norm.bias}) {
    vectorizable &= IsVectorizable(*tensor);
  }
  DispatchFloat(params.output.dtype, [&]<typename T>() {
    EmbedArgs<T> args;
    args.tokens = params.token_table.as<T>();
    args.positions = params.position_table.as<T>();
    args.types = params.type_table.as<T>();
    args.token_stride = params.token_table.row_stride;
    args.position_stride = params.position_table.row_stride;
    args.type_stride = params.type_table.row_stride;
    args.token_ids = params.token_ids;
    args.last_token = static_cast<uint32_t>(params.token_table.dim(0) - 1);
    args.position_ids = params.positions;
    args.type_ids = params.type_ids;
    args.token_scale = params.token_scale;
    args.output = params.output.as<T>();
    args.output_stride = params.output.row_stride;
    args.hidden_size = static_cast<int>(params.output.dim(-1));
    args.norm = MakeRowNorm<T>(params.norm, args.hidden_size);
    if (vectorizable) {
      LaunchEmbed<T, kVecSize<T>>(device, args, params.num_tokens);
    } else {
      LaunchEmbed<T, 1>(device, args, params.num_tokens);
    }
  });
}

void Compute(Device& device, const GatherRowsParams& params) {
  const Tensor& input = params.input;
  const int32_t* rows = params.rows;
  const Tensor& output = params.output;
  const int64_t num_rows = output.num_rows();
  if (num_rows == 0) return;
  const auto element_bytes = static_cast<int64_t>(SizeOf(output.dtype));
  const int64_t row_bytes = output.dim(-1) * element_bytes;
  const auto launch = [&]<typename Unit>() {
    const int units = static_cast<int>(row_bytes / static_cast<int64_t>(sizeof(Unit)));
    LaunchOverlapped(device, "GatherRows", GatherKernel<Unit>, num_rows,
                     ThreadsFor(units, kMostThreads), /*shared_bytes=*/0, input.as<char>(),
                     input.row_stride * element_bytes, rows, output.as<char>(),
                     output.row_stride * element_bytes, units);
  };
  if (IsVectorizable(input) && IsVectorizable(output)) {
    launch.template operator()<uint4>();
  } else if (element_bytes == 4) {
    launch.template operator()<uint32_t>();
  } else if (element_bytes == 2) {
    launch.template operator()<uint16_t>();
  } else {
    launch.template operator()<uint8_t>();
  }
}

void Compute(Device& device, const UnfoldParams& params) {
  const int64_t num_tokens = params.input.num_rows();
  if (num_tokens == 0 || params.num_sequences == 0) return;
  const auto launch = [&]<typename Unit>() {
    const auto width = static_cast<int>(params.input.dim(-1));
    LaunchOverlapped(device, "Unfold", UnfoldKernel<Unit>, num_tokens,
                     ThreadsFor(width * params.kernel_size, kMostThreads), /*shared_bytes=*/0,
                     params.input.as<Unit>(), params.input.row_stride, params.offsets,
                     params.num_sequences, params.kernel_size, params.output.as<Unit>(),
                     params.output.row_stride, width);
  };
  if (SizeOf(params.input.dtype) == 4) {
    launch.template operator()<uint32_t>();
  } else {
    launch.template operator()<uint16_t>();
  }
}

void Compute(Device& device, const CopyBlocksParams& params) {
  const KvLayer& layer = params.layer;
  std::span<const BlockCopy> copies = params.copies;
  const int64_t block_bytes = layer.keys.dim(1) * layer.keys.dim(2) * layer.keys.dim(3) *
                              static_cast<int64_t>(SizeOf(layer.keys.dtype));
  const auto launch = [&]<typename Unit>(const BlockCopy* part, unsigned num_copies) {
    const int64_t units = block_bytes / static_cast<int64_t>(sizeof(Unit));
    const int threads = ThreadsFor(units, kMostThreads);
    const dim3 grid(static_cast<unsigned>(CeilDiv(units, threads)), num_copies, 2);
    CopyBlocksKernel<Unit><<<grid, threads, 0, device.stream()>>>(
        layer.keys.as<char>(), layer.values.as<char>(), part, block_bytes);
    device.CheckLaunch("CopyBlocks");
  };
  while (!copies.empty()) {
    const std::span part = copies.first(std::min<size_t>(copies.size(), kMostGridY));
    copies = copies.subspan(part.size());
    const BlockCopy* staged = device.Stage(part);
    if (!device.ok()) return;
    if (block_bytes % 16 == 0) {
      launch.template operator()<uint4>(staged, static_cast<unsigned>(part.size()));
    } else {
      launch.template operator()<uint16_t>(staged, static_cast<unsigned>(part.size()));
    }
  }
}

}  // namespace beamline::cuda
