// What the products of few rows do with their sums. A unit is what an output needs at once: one
// output feature of the weight, or a pair of them.
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {

// x W^T for few rows, as the kernels see it.
template <typename T>
struct SkinnyOperands {
  const T* x;
  const T* weight;
  int64_t x_stride, weight_stride;
  int num_rows, in_features, num_units;

  __device__ const T* Row(int feature) const { return weight + feature * weight_stride; }
};

// Blocks that may be on the multiprocessors before the kernel's turn, and prefetch their weights.
inline constexpr int kEarlyBlocks = 2048;

template <typename T>
SkinnyOperands<T> MakeSkinnyOperands(const Tensor& x, const CudaWeight& weight, bool paired) {
  const auto num_features = static_cast<int>(weight.out_features());
  return {x.as<T>(),
          static_cast<const T*>(weight.data()),
          x.row_stride,
          weight.row_stride(),
          static_cast<int>(x.num_rows()),
          static_cast<int>(weight.in_features()),
          paired ? num_features / 2 : num_features};
}

// MatMul's epilogue. A pair is a column of the gate and of the up projection.
template <typename T, typename Y>
struct MatMulOutput {
  // What is read besides the sums. The kernels load it before the product, under which its latency
  // passes. Prefetch brings what no kernel writes to L2 before that.
  struct Inputs {
    float bias, up_bias, residual;
  };

  const void* bias;
  const Y* residual;
  Y* y;
  int64_t residual_stride, y_stride;
  int width;  // columns of y
  DType bias_dtype;
  Activation activation;
  bool gated;

  __host__ __device__ bool paired() const { return gated; }
  __device__ int First(int unit) const { return unit; }
  __device__ int Second(int unit) const { return unit + width; }

  __device__ void Prefetch(int unit) const {
    if (bias == nullptr) return;
    const auto size = bias_dtype == DType::kFloat32 ? sizeof(float) : sizeof(T);
    PrefetchToL2(static_cast<const char*>(bias) + unit * size);
    if (gated) PrefetchToL2(static_cast<const char*>(bias) + (unit + width) * size);
  }
  __device__ float BiasOf(int feature) const {
    if (bias == nullptr) return 0.0f;
    if (bias_dtype == DType::kFloat32) return static_cast<const float*>(bias)[feature];
    return ToFloat(static_cast<const T*>(bias)[feature]);
  }
  __device__ Inputs Load(int row, int unit) const {
    return {BiasOf(unit), gated ? BiasOf(unit + width) : 0.0f,
            residual == nullptr ? 0.0f : ToFloat(residual[row * residual_stride + unit])};
  }
  __device__ void Store(int row, int unit, const Inputs& inputs, float sum, float up) const {
    float value = Activate(activation, sum + inputs.bias);
    if (gated) value *= up + inputs.up_bias;
    if (residual != nullptr) value += inputs.residual;
    y[row * y_stride + unit] = FromFloat<Y>(value);
  }
};

template <typename T, typename Y>
MatMulOutput<T, Y> MakeOutput(const MatMulParams& params) {
  return {params.bias.data,           params.residual.as<Y>(), params.y.as<Y>(),
          params.residual.row_stride, params.y.row_stride,     static_cast<int>(params.y.dim(-1)),
          params.bias.dtype,          params.activation,       params.gated};
}

// Every head to its place. With rotary embedding a pair is what one angle rotates, and where there
// is nothing to be rotated two neighbours: a head_dim that is even.
template <typename T>
struct HeadsOutput {
  struct Inputs {
    float bias, second_bias, cosine, sine;
    int slot;
  };

  HeadPlaces<T> places;
  const T* bias;

  __host__ __device__ bool paired() const { return places.cos_sin != nullptr; }
  // A pair's head, and its place among the pairs of that head.
  __device__ int HeadOf(int unit) const { return unit / (places.head_dim / 2); }
  __device__ int PairOf(int unit) const { return unit % (places.head_dim / 2); }
  __device__ bool IsRotated(int unit) const {
    return places.Rotates(HeadOf(unit)) && PairOf(unit) < places.rotary_dim / 2;
  }
  __device__ bool IsHalfSplit(int unit) const { return !places.interleaved && IsRotated(unit); }

  __device__ int First(int unit) const {
    if (!paired() || !IsHalfSplit(unit)) return paired() ? 2 * unit : unit;
    return HeadOf(unit) * places.head_dim + PairOf(unit);
  }
  __device__ int Second(int unit) const {
    return First(unit) + (IsHalfSplit(unit) ? places.rotary_dim / 2 : 1);
  }

  __device__ void Prefetch(int unit) const {
    if (bias != nullptr) PrefetchToL2(bias + First(unit));
  }
  __device__ Inputs Load(int row, int unit) const {
    Inputs inputs = {0.0f, 0.0f, 1.0f, 0.0f, places.SlotOf(row)};
    if (bias != nullptr) inputs.bias = ToFloat(bias[First(unit)]);
    if (!paired()) return inputs;
    if (bias != nullptr) inputs.second_bias = ToFloat(bias[Second(unit)]);
    if (IsRotated(unit)) {
      const float* angles = places.cos_sin + places.positions[row] * places.cos_sin_stride;
      inputs.cosine = angles[PairOf(unit)];
      inputs.sine = angles[places.rotary_dim / 2 + PairOf(unit)];
    }
    return inputs;
  }

  __device__ void Store(int row, int unit, const Inputs& inputs, float sum,
                        float second_sum) const {
    const int feature = First(unit);
    const int head = feature / places.head_dim;
    const int d = feature - head * places.head_dim;
    const float scale = places.Scale(head);
    T* const to = places.Head(row, inputs.slot, head);
    const float first = sum + inputs.bias;
    if (!paired()) {
      to[d] = FromFloat<T>(first * scale);
      return;
    }
    const float second = second_sum + inputs.second_bias;
    const float rotated = first * inputs.cosine - second * inputs.sine;
    const float second_rotated = second * inputs.cosine + first * inputs.sine;
    to[d] = FromFloat<T>(rotated * scale);
    to[d + Second(unit) - feature] = FromFloat<T>(second_rotated * scale);
  }
};

template <typename T>
HeadsOutput<T> MakeOutput(const ProjectHeadsParams& params) {
  return {MakeHeadPlaces<T>(params), params.bias.as<T>()};
}

// Whether every head divides into HeadsOutput's pairs.
inline bool HasPairs(const ProjectHeadsParams& params) {
  return params.rotary == nullptr || params.head_dim % 2 == 0;
}

}  // namespace beamline::cuda
