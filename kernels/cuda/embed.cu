// Operators that move rows: embedding, gathering, block copies.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int kMostGridY = 65535;

struct EmbedTables {
  const void* token = nullptr;
  const void* position = nullptr;  // null: none
  const void* type = nullptr;      // null: none
  int64_t token_stride = 0;
  int64_t position_stride = 0;
  int64_t type_stride = 0;
};

// output = token * scale + type + position.
// Grid: a block per token. Bound by memory: up to three rows read, one written.
template <typename T, int kSize>
__global__ void EmbedKernel(EmbedTables tables, const int32_t* token_ids, const int32_t* positions,
                            const int32_t* type_ids, float token_scale, int hidden_size, T* output,
                            int64_t output_stride) {
  const int64_t i = blockIdx.x;
  const T* token = static_cast<const T*>(tables.token) + token_ids[i] * tables.token_stride;
  const T* position = tables.position == nullptr ? nullptr
                                                 : static_cast<const T*>(tables.position) +
                                                       positions[i] * tables.position_stride;
  const T* type = tables.type == nullptr
                      ? nullptr
                      : static_cast<const T*>(tables.type) +
                            (type_ids == nullptr ? 0 : type_ids[i]) * tables.type_stride;
  T* to = output + i * output_stride;
  for (int column = threadIdx.x * kSize; column < hidden_size; column += blockDim.x * kSize) {
    float sum[kSize], addend[kSize];
    LoadFloats<kSize>(token + column, sum);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum[j] *= token_scale;
    for (const T* row : {type, position}) {
      if (row == nullptr) continue;
      LoadFloats<kSize>(row + column, addend);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum[j] += addend[j];
    }
    StoreFloats<kSize>(sum, to + column);
  }
}

// to[i] = from[rows[i]], rows of whole `Unit`s.
// Grid: a block per row. Bound by memory: every byte read and written once.
template <typename Unit>
__global__ void GatherKernel(const char* from, int64_t from_stride, const int32_t* rows, char* to,
                             int64_t to_stride, int units_per_row) {
  const auto* source = reinterpret_cast<const Unit*>(from + rows[blockIdx.x] * from_stride);
  auto* target = reinterpret_cast<Unit*>(to + blockIdx.x * to_stride);
  for (int i = threadIdx.x; i < units_per_row; i += blockDim.x) target[i] = source[i];
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

// Bound by its launch: a step has at most some hundreds of fills.
__global__ void FillTokensKernel(const int32_t* words, const TokenFill* fills, int num_fills,
                                 int32_t* token_ids) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < num_fills) token_ids[fills[index].target] = words[fills[index].source];
}

}  // namespace

void Embed(Device& device, const EmbedParams& params) {
  if (params.num_tokens == 0) return;
  EmbedTables tables;
  tables.token = params.token_table.data;
  tables.token_stride = params.token_table.row_stride;
  tables.position = params.position_table.data;
  tables.position_stride = params.position_table.row_stride;
  tables.type = params.type_table.data;
  tables.type_stride = params.type_table.row_stride;
  const int hidden_size = static_cast<int>(params.output.dim(-1));
  const bool vectorizable = IsVectorizable(params.output) && IsVectorizable(params.token_table) &&
                            IsVectorizable(params.position_table) &&
                            IsVectorizable(params.type_table);
  DispatchFloat(params.output.dtype, [&]<typename T>() {
    const auto launch = [&]<int kSize>() {
      const int threads = ThreadsFor(hidden_size / kSize, kMostThreads);
      EmbedKernel<T, kSize>
          <<<static_cast<unsigned>(params.num_tokens), threads, 0, device.stream()>>>(
              tables, params.token_ids, params.positions, params.type_ids, params.token_scale,
              hidden_size, params.output.as<T>(), params.output.row_stride);
      device.CheckLaunch("Embed");
    };
    if (vectorizable) {
      launch.template operator()<kVecSize<T>>();
    } else {
      launch.template operator()<1>();
    }
  });
}

void GatherRows(Device& device, const Tensor& input, const int32_t* rows, const Tensor& output) {
  const auto num_rows = static_cast<unsigned>(output.num_rows());
  if (num_rows == 0) return;
  const auto element_bytes = static_cast<int64_t>(SizeOf(output.dtype));
  const int64_t row_bytes = output.dim(-1) * element_bytes;
  const auto launch = [&]<typename Unit>() {
    const int units = static_cast<int>(row_bytes / static_cast<int64_t>(sizeof(Unit)));
    GatherKernel<Unit><<<num_rows, ThreadsFor(units, kMostThreads), 0, device.stream()>>>(
        input.as<char>(), input.row_stride * element_bytes, rows, output.as<char>(),
        output.row_stride * element_bytes, units);
    device.CheckLaunch("GatherRows");
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

void FillTokens(Device& device, const int32_t* words, std::span<const TokenFill> fills,
                int32_t* token_ids) {
  const TokenFill* staged = device.Stage(fills);
  if (!device.ok()) return;
  const int count = static_cast<int>(fills.size());
  FillTokensKernel<<<(count + kMostThreads - 1) / kMostThreads, kMostThreads, 0, device.stream()>>>(
      words, staged, count, token_ids);
  device.CheckLaunch("FillTokens");
}

void CopyBlocks(Device& device, const KvLayer& layer, std::span<const BlockCopy> copies) {
  const int64_t block_bytes = layer.keys.dim(1) * layer.keys.dim(2) * layer.keys.dim(3) *
                              static_cast<int64_t>(SizeOf(layer.keys.dtype));
  const auto launch = [&]<typename Unit>(const BlockCopy* part, unsigned num_copies) {
    const int64_t units = block_bytes / static_cast<int64_t>(sizeof(Unit));
    const int threads = ThreadsFor(units, kMostThreads);
    const dim3 grid(static_cast<unsigned>((units + threads - 1) / threads), num_copies, 2);
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
