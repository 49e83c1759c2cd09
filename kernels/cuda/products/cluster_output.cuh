// The outputs of cluster_product.cu. A thread has the same two neighbouring output features of
// several rows.
#pragma once

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/activation.cuh"
#include "kernels/cuda/products/heads.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {

// Two neighbours in one access. The second one exists only if `both`.
template <typename T>
__device__ uint32_t LoadPair(const T* from, bool both) {
  if (both) return *reinterpret_cast<const uint32_t*>(from);
  return *reinterpret_cast<const uint16_t*>(from);
}
template <typename T>
__device__ void StorePair(float first, float second, bool both, T* to) {
  if (both) {
    *reinterpret_cast<uint32_t*>(to) = PackPair<T>(first, second);
  } else {
    *to = FromFloat<T>(first);
  }
}
template <typename T>
__device__ float2 UnpackPair(uint32_t bits) {
  return {ToFloat(FromBits<T>(static_cast<uint16_t>(bits))),
          ToFloat(FromBits<T>(static_cast<uint16_t>(bits >> 16)))};
}

// MatMul's epilogue, with a y of type T.
template <typename T>
struct ClusterMatMul {
  // A thread's features, loaded before WaitForEarlierKernels.
  struct Columns {
    int feature;
    int count;  // 2, 1 at the end of an odd number of features, or at most 0: none
    RawBias first_bias, second_bias;
  };

  const void* bias;
  const T* residual;
  T* y;
  int64_t residual_stride, y_stride;
  int width;  // columns of y
  bool bias_is_float;
  Activation activation;

  __device__ Columns MakeColumns(int feature) const {
    Columns columns = {feature, min(width - feature, 2), {}, {}};
    if (bias == nullptr || columns.count <= 0) return columns;
    columns.first_bias.template Load<T>(bias, bias_is_float, feature);
    if (columns.count == 2) {
      columns.second_bias.template Load<T>(bias, bias_is_float, feature + 1);
    }
    return columns;
  }
  // Loads the other inputs of a row's two features, after WaitForEarlierKernels.
  __device__ uint32_t LoadRest(int row, const Columns& columns) const {
    if (residual == nullptr) return 0;
    return LoadPair(residual + row * residual_stride + columns.feature, columns.count == 2);
  }
  // Adds the biases to the sums of two features of two rows, and activates them.
  __device__ void Activate(const Columns& columns, float (&sums)[4]) const {
    const float first = columns.first_bias.template Value<T>(bias_is_float);
    const float second = columns.second_bias.template Value<T>(bias_is_float);
    sums[0] += first, sums[1] += first;
    sums[2] += second, sums[3] += second;
    ActivateAll(activation, sums);
  }
  __device__ void Store(int row, const Columns& columns, uint32_t rest, float first,
                        float second) const {
    const float2 added = UnpackPair<T>(rest);
    StorePair(first + added.x, second + added.y, columns.count == 2,
              y + row * y_stride + columns.feature);
  }
};

// Stores every head of ProjectHeads at its destination.
template <typename T>
struct ClusterHeads {
  struct Columns {
    int count;  // 2, or 0 after the last head
    int head, d;
    float scale;
    uint32_t bias;
  };

  HeadPlaces<T> places;
  const T* bias;
  Divisor head_dim;
  int width;

  __device__ Columns MakeColumns(int feature) const {
    if (feature >= width) return {};
    const int head = head_dim.Quotient(feature);
    return {2, head, feature - head * head_dim.value(), places.Scale(head),
            bias == nullptr ? 0 : LoadPair(bias + feature, true)};
  }
  // The row's slot.
  __device__ uint32_t LoadRest(int row, const Columns& /*columns*/) const {
    return static_cast<uint32_t>(places.SlotOf(row));
  }
  __device__ void Activate(const Columns& columns, float (&sums)[4]) const {
    const float2 added = UnpackPair<T>(columns.bias);
    sums[0] += added.x, sums[1] += added.x;
    sums[2] += added.y, sums[3] += added.y;
  }
  __device__ void Store(int row, const Columns& columns, uint32_t rest, float first,
                        float second) const {
    T* const to = places.Head(row, static_cast<int>(rest), columns.head) + columns.d;
    StorePair(first * columns.scale, second * columns.scale, true, to);
  }
};

}  // namespace beamline::cuda
