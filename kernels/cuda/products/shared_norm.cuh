// The norm of float32 rows that a block multiplies from shared memory.
#pragma once

#include "kernels/cuda/device/divisor.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/norm_on_load.cuh"

namespace beamline::cuda {

struct SharedNorm : NormOnLoad<float> {
  explicit SharedNorm(const NormOnLoad<float>& on_load)
      : NormOnLoad<float>(on_load), row_chunks(on_load.norm.hidden_size / kVecSize<float>) {}

  Divisor row_chunks;  // 16-byte accesses of a row
};

// Bytes of dynamic shared memory for gain, bias and the normalised rows. Allows `kernel` to use
// them.
template <typename Kernel>
int64_t SharedRows(Device& device, Kernel* kernel, const SharedNorm& by, int num_rows) {
  constexpr int64_t kMostStaticBytes = 20 << 10;  // of the products' kernels
  const int64_t elements = 2 * by.norm.hidden_size + int64_t{num_rows} * by.norm.hidden_size;
  const auto bytes = static_cast<int64_t>(sizeof(float)) * elements;
  AllowShared(device, kernel, bytes, kMostStaticBytes);
  return bytes;
}

// Starts to copy gain and bias to shared memory, one after the other; a missing bias as zeros. The
// last warps do it, because they usually have no row to normalise.
__device__ inline void CopyGainAndBias(const RowNorm<float>& norm, float* shared) {
  constexpr int kSize = kVecSize<float>;
  constexpr int kThreads = kNormingWarps * kWarpSize;
  const int num_chunks = norm.hidden_size / kSize;
#pragma unroll 1  // usually runs once
  for (int i = kThreads - 1 - static_cast<int>(threadIdx.x); i < 2 * num_chunks; i += kThreads) {
    const bool is_bias = i >= num_chunks;
    const bool exists = !is_bias || norm.bias != nullptr;
    const float* from = is_bias && exists ? norm.bias - norm.hidden_size : norm.gain;
    CopyAsync(shared + i * kSize, exists ? from + i * kSize : norm.gain, exists);
  }
  CommitCopies();
}

// A lane's part of a row: accesses of 16 bytes, interleaved with those of the warp's other lanes.
struct RowPart {
  static constexpr int kSize = kVecSize<float>;
  static constexpr int kStep = kWarpSize * kSize;
  static constexpr int kChunks = kMostNormedColumns / kStep;
  using Chunk = Vec<float, kSize>;

  int begin, size;  // columns
  Chunk chunks[kChunks];

  __device__ RowPart(int lane, int hidden_size) : begin(lane * kSize), size(hidden_size) {}

  __device__ void Load(const float* row) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const bool inside = begin + i * kStep < size;
      chunks[i] = inside ? *reinterpret_cast<const Chunk*>(row + begin + i * kStep) : Chunk{};
    }
  }
  __device__ void Store(float* row) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (begin + i * kStep >= size) break;
      *reinterpret_cast<Chunk*>(row + begin + i * kStep) = chunks[i];
    }
  }
  __device__ float Sum() const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (i * kStep >= size) break;
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum += chunks[i].values[j];
    }
    return WarpSum(sum);
  }
  __device__ float SquaresAround(float mean) const {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (begin + i * kStep >= size) break;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float centred = chunks[i].values[j] - mean;
        squares += centred * centred;
      }
    }
    return WarpSum(squares);
  }
};

// The normalised rows of x, in shared memory. The first block also writes them to by.normed. For a
// block of kNormingWarps warps. A kernel calls it once. meanwhile() starts the loads that come
// next. Each warp computes the mean of its row and the variance around it. Then all warps divide
// the columns of all rows.
template <typename Meanwhile>
__device__ float* NormaliseRows(const float* x, int64_t x_stride, int num_rows,
                                const SharedNorm& by, const Meanwhile& meanwhile) {
  constexpr int kSize = kVecSize<float>;
  extern __shared__ uint4 norm_memory[];
  __shared__ float2 scales[kNormingWarps];  // a row's mean, and the reciprocal of its deviation
  const RowNorm<float>& norm = by.norm;
  float* const gain = reinterpret_cast<float*>(norm_memory);
  float* const bias = gain + norm.hidden_size;
  float* const rows = bias + norm.hidden_size;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;

  RowPart part(lane, norm.hidden_size);
  if (warp < num_rows) part.Load(x + warp * x_stride);
  meanwhile();
  __syncwarp();  // keeps the compiler from moving loads past it
  CopyGainAndBias(norm, gain);
  if (warp < num_rows) {
    part.Store(rows + warp * by.norm.hidden_size);
    const float mean = norm.centred ? part.Sum() * by.inverse_size : 0.0f;
    const float variance = part.SquaresAround(mean) * by.inverse_size;
    if (lane == 0) scales[warp] = {mean, rsqrtf(variance + norm.epsilon)};
  }
  WaitForCopies<0>();
  __syncthreads();
  const int end = num_rows * by.row_chunks.value();
#pragma unroll 1  // usually runs once
  for (int i = static_cast<int>(threadIdx.x); i < end; i += kNormingWarps * kWarpSize) {
    const int row = by.row_chunks.Quotient(i);
    const int column = (i - row * by.row_chunks.value()) * kSize;
    float* const at = rows + row * by.norm.hidden_size + column;
    const float2 scale = scales[row];
    float values[kSize], gains[kSize], biases[kSize];
    LoadFloats<kSize>(at, values);
    LoadFloats<kSize>(gain + column, gains);
    LoadFloats<kSize>(bias + column, biases);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = (values[j] - scale.x) * scale.y * gains[j] + biases[j];
    }
    StoreFloats<kSize>(values, at);
    if (blockIdx.x == 0) StoreFloats<kSize>(values, by.normed + row * by.normed_stride + column);
  }
  __syncthreads();
  return rows;
}

}  // namespace beamline::cuda
