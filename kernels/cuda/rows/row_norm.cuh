// LayerNorm and RMSNorm of a row that a block holds, for the kernels that end in a norm.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

template <typename T>
struct RowNorm {
  const T* gain;  // [hidden_size]
  const T* bias;  // [hidden_size]; may be null
  int hidden_size;
  float epsilon;
  bool centred;  // LayerNorm
};

template <typename T>
RowNorm<T> MakeRowNorm(const FusedNorm& norm, int64_t hidden_size) {
  return {norm.gain.as<T>(), norm.bias.as<T>(), static_cast<int>(hidden_size), norm.epsilon,
          norm.kind == NormKind::kLayerNorm};
}

// Where a row waits for its norm. A thread has kSize elements from column threadIdx.x * kSize on,
// as many from blockDim.x * kSize further on, and so forth; it reads only elements that it wrote.
// In shared memory, whatever the row's length:
struct SharedRow {
  float* values;

  __device__ float& At(int column, int j) const { return values[column + j]; }
};
// In registers, where a thread has no second part. Both have the same bits.
template <int kSize>
struct HeldRow {
  float values[kSize];

  __device__ float& At(int /*column*/, int j) { return values[j]; }
  __device__ float At(int /*column*/, int j) const { return values[j]; }
};

// Where NormalizeRow finds gain and bias: in memory,
template <typename T>
struct StoredGain {
  const RowNorm<T>& norm;

  template <int kSize>
  __device__ void Gain(int column, float (&to)[kSize]) const {
    LoadFloats<kSize>(norm.gain + column, to);
  }
  template <int kSize>
  __device__ void Bias(int column, float (&to)[kSize]) const {
    LoadFloats<kSize>(norm.bias + column, to);
  }
};
// or, of a thread that has no second part of a row, in registers since before the kernel's turn.
template <typename T>
struct HeldGain {
  static constexpr int kChunk = kVecSize<T>;
  uint4 gain = {}, bias = {};

  __device__ void Load(const RowNorm<T>& norm, int column) {
    const bool inside = column < norm.hidden_size;
    LoadEarlyIf(inside, norm.gain + column, gain);
    LoadEarlyIf(inside && norm.bias != nullptr, norm.bias + column, bias);
  }
  __device__ void Gain(int /*column*/, float (&to)[kChunk]) const {
    LoadFloats<kChunk>(reinterpret_cast<const T*>(&gain), to);
  }
  __device__ void Bias(int /*column*/, float (&to)[kChunk]) const {
    LoadFloats<kChunk>(reinterpret_cast<const T*>(&bias), to);
  }
};

// y = norm(row) * gain + bias, and where it is not null + addend, which may be y. `total`: the sum
// of the thread's elements. The mean comes first, then the variance around it, as accurate as
// float32 allows. A kernel calls it once.
template <int kSize, typename Row, typename Gain, typename T>
__device__ void NormalizeRow(const RowNorm<T>& norm, const Row& row, float total,
                             const Gain& gain_and_bias, T* y, const T* addend = nullptr) {
  __shared__ float partial_sums[kWarpSize], partial_squares[kWarpSize];
  const int begin = threadIdx.x * kSize;
  const int step = blockDim.x * kSize;
  const float count = static_cast<float>(norm.hidden_size);
  const float mean = norm.centred ? BlockSum(total, partial_sums) / count : 0.0f;

  float squares = 0.0f;
  for (int column = begin; column < norm.hidden_size; column += step) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float centred = row.At(column, j) - mean;
      squares += centred * centred;
    }
  }
  const float variance = BlockSum(squares, partial_squares) / count;
  const float scale = 1.0f / sqrtf(variance + norm.epsilon);

  for (int column = begin; column < norm.hidden_size; column += step) {
    float values[kSize], gain[kSize];
    gain_and_bias.Gain(column, gain);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = __fmul_rn((row.At(column, j) - mean) * scale, gain[j]);
    }
    if (norm.bias != nullptr) {
      float bias[kSize];
      gain_and_bias.Bias(column, bias);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = __fadd_rn(values[j], bias[j]);
    }
    if (addend != nullptr) {
      float added[kSize];
      LoadFloats<kSize>(addend + column, added);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = __fadd_rn(values[j], added[j]);
    }
    StoreFloats<kSize>(values, y + column);
  }
}

inline constexpr int64_t kStaticBytes = 2 << 10;  // the most that kernels have beside the row

// Lets `kernel`, which has `static_bytes` of shared memory, use `bytes` more of it.
template <typename Kernel>
void AllowShared(Device& device, Kernel* kernel, int64_t bytes, int64_t static_bytes) {
  constexpr int64_t kDefaultBytes = 48 << 10;
  if (bytes <= kDefaultBytes - static_bytes) return;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "a norm's hidden_size needs more shared memory than the GPU has");
}

// Bytes of dynamic shared memory for a row, which `kernel` may use from now on. No row is longer
// than MostNormColumns (row_ops.h), which models are checked against when they are loaded.
template <typename Kernel>
int64_t SharedRowBytes(Device& device, Kernel* kernel, int64_t hidden_size) {
  const int64_t bytes = hidden_size * static_cast<int64_t>(sizeof(float));
  AllowShared(device, kernel, bytes, kStaticBytes);
  return bytes;
}

}  // namespace beamline::cuda
