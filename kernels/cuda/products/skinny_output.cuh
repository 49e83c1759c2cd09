// The outputs of the products of few rows. A unit is what an output needs at once: one output
// feature of the weight, or a pair of them.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/activation.cuh"
#include "kernels/cuda/products/heads.cuh"
#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// The operands of x W^T for few rows.
template <typename T>
struct SkinnyOperands {
  const T* x;
  const T* weight;
  int64_t x_stride, weight_stride;
  int num_rows, in_features, num_units;

  __device__ const T* Row(int feature) const { return weight + feature * weight_stride; }
};

// The first blocks of a kernel may be scheduled before WaitForEarlierKernels returns, and prefetch
// the starts of their weights' rows. These limits let all of it fit in L2 together, which would
// otherwise drop lines unread.
inline constexpr int kEarlyBlocks = 2048;
inline constexpr int kEarlyColumns = 1024;

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

// An element of a bias as it is stored. Converting it to a number would wait for its load.
struct RawBias {
  uint32_t bits = 0;

  // Of type T unless is_float.
  template <typename T>
  __device__ void Load(const void* bias, bool is_float, int feature) {
    if (sizeof(T) == 4 || is_float) {
      bits = static_cast<const uint32_t*>(bias)[feature];
    } else {
      bits = static_cast<const uint16_t*>(bias)[feature];
    }
  }
  template <typename T>
  __device__ float Value(bool is_float) const {
    if constexpr (sizeof(T) == 2) {
      if (!is_float) return ToFloat(FromBits<T>(static_cast<uint16_t>(bits)));
    }
    return __uint_as_float(bits);
  }
};

// MatMul's epilogue. A pair is a column of the gate and the same column of the up projection.
template <typename T, typename Y, bool kGated>
struct MatMulOutput {
  static constexpr bool kPaired = kGated;
  static constexpr bool kTakesNorm = std::is_same_v<T, Y>;  // logits have too many blocks

  // The inputs besides the sums. The kernels load them before the product, which hides their
  // latency. They stay raw, because a conversion would wait for its load. LoadWeights loads what no
  // kernel writes, before WaitForEarlierKernels, and LoadRest loads the rest. Prefetch brings the
  // former to L2.
  struct Inputs {
    RawBias bias, up_bias;
    Y residual;
  };

  const void* bias;
  const Y* residual;
  Y* y;
  int64_t residual_stride, y_stride;
  int width;  // columns of y
  bool bias_is_float;
  Activation activation;

  __device__ int First(int unit) const { return unit; }
  __device__ int Second(int unit) const { return unit + width; }

  __device__ void Prefetch(int unit) const {
    if (bias == nullptr) return;
    const auto size = bias_is_float ? sizeof(float) : sizeof(T);
    PrefetchToL2(static_cast<const char*>(bias) + unit * size);
    if (kGated) PrefetchToL2(static_cast<const char*>(bias) + (unit + width) * size);
  }
  __device__ Inputs LoadWeights(int row, int unit) const {
    Inputs inputs = {};
    if (bias != nullptr) {
      inputs.bias.template Load<T>(bias, bias_is_float, unit);
      if (kGated) inputs.up_bias.template Load<T>(bias, bias_is_float, unit + width);
    }
    return inputs;
  }
  __device__ void LoadRest(int row, int unit, Inputs& inputs) const {
    if (residual != nullptr) inputs.residual = residual[row * residual_stride + unit];
  }
  __device__ void Store(int row, int unit, const Inputs& inputs, float sum, float up) const {
    float value = Activate(activation, sum + inputs.bias.template Value<T>(bias_is_float));
    if (kGated) value *= up + inputs.up_bias.template Value<T>(bias_is_float);
    if (residual != nullptr) value += ToFloat(inputs.residual);
    y[row * y_stride + unit] = FromFloat<Y>(value);
  }
};

// Calls body(output) with MatMul's output for activations of type T and y's type.
template <typename T, typename Body>
void WithOutput(const MatMulParams& params, Body body) {
  const auto make = [&]<typename Y, bool kGated>() {
    body(MatMulOutput<T, Y, kGated>{params.bias.data, params.residual.as<Y>(), params.y.as<Y>(),
                                    params.residual.row_stride, params.y.row_stride,
                                    static_cast<int>(params.y.dim(-1)),
                                    params.bias.dtype == DType::kFloat32, params.activation});
  };
  BEAMLINE_CHECK(params.y.dtype == DType::kFloat32 || params.y.dtype == params.x.dtype);
  const auto make_of = [&]<typename Y>() {
    params.gated ? make.template operator()<Y, true>() : make.template operator()<Y, false>();
  };
  params.y.dtype == DType::kFloat32 ? make_of.template operator()<float>()
                                    : make_of.template operator()<T>();
}

// Stores every head at its destination. With rotary embedding a pair is the two elements that one
// angle rotates, or two neighbours in the part that is not rotated. So head_dim is even.
template <typename T, bool kRotated>
struct HeadsOutput {
  static constexpr bool kPaired = kRotated;
  static constexpr bool kTakesNorm = true;

  struct Inputs {
    T bias, second_bias;
    float cosine, sine;
    int slot;
  };

  HeadPlaces<T> places;
  const T* bias;
  Divisor head_units;  // units of a head

  // A unit's head, and its index among the units of that head.
  __device__ int HeadOf(int unit) const { return head_units.Quotient(unit); }
  __device__ int PairOf(int unit) const { return unit - HeadOf(unit) * head_units.value(); }
  __device__ bool IsRotated(int unit) const {
    return places.Rotates(HeadOf(unit)) && PairOf(unit) < places.rotary_dim / 2;
  }
  __device__ bool IsHalfSplit(int unit) const { return !places.interleaved && IsRotated(unit); }

  __device__ int First(int unit) const {
    if (!kPaired || !IsHalfSplit(unit)) return kPaired ? 2 * unit : unit;
    return HeadOf(unit) * places.head_dim + PairOf(unit);
  }
  __device__ int Second(int unit) const {
    return First(unit) + (IsHalfSplit(unit) ? places.rotary_dim / 2 : 1);
  }

  __device__ void Prefetch(int unit) const {
    if (bias != nullptr) PrefetchToL2(bias + First(unit));
  }
  __device__ Inputs LoadWeights(int /*row*/, int unit) const {
    Inputs inputs = {};
    inputs.cosine = 1.0f;
    if (bias == nullptr) return inputs;
    inputs.bias = bias[First(unit)];
    if (kPaired) inputs.second_bias = bias[Second(unit)];
    return inputs;
  }
  __device__ void LoadRest(int row, int unit, Inputs& inputs) const {
    inputs.slot = places.SlotOf(row);
    if (!kPaired || !IsRotated(unit)) return;
    const float* angles = places.cos_sin + places.positions[row] * places.cos_sin_stride;
    inputs.cosine = angles[PairOf(unit)];
    inputs.sine = angles[places.rotary_dim / 2 + PairOf(unit)];
  }

  __device__ void Store(int row, int unit, const Inputs& inputs, float sum,
                        float second_sum) const {
    const int feature = First(unit);
    const int head = HeadOf(unit);
    const int d = feature - head * places.head_dim;
    const float scale = places.Scale(head);
    T* const to = places.Head(row, inputs.slot, head);
    const float first = sum + ToFloat(inputs.bias);
    if (!kPaired) {
      to[d] = FromFloat<T>(first * scale);
      return;
    }
    const float second = second_sum + ToFloat(inputs.second_bias);
    const float rotated = first * inputs.cosine - second * inputs.sine;
    const float second_rotated = second * inputs.cosine + first * inputs.sine;
    to[d] = FromFloat<T>(rotated * scale);
    to[d + Second(unit) - feature] = FromFloat<T>(second_rotated * scale);
  }
};

// Calls body(output) with ProjectHeads' output. REQUIRES: the heads divide into its pairs.
template <typename T, typename Body>
void WithOutput(const ProjectHeadsParams& params, Body body) {
  const HeadPlaces<T> places = MakeHeadPlaces<T>(params);
  if (params.rotary == nullptr) {
    return body(HeadsOutput<T, false>{places, params.bias.as<T>(), Divisor(params.head_dim)});
  }
  BEAMLINE_CHECK(params.head_dim % 2 == 0);
  body(HeadsOutput<T, true>{places, params.bias.as<T>(), Divisor(params.head_dim / 2)});
}

// The unit that a thread completes in a block of kUnits units from `begin` on, and its inputs
// besides the sums. Thread i completes unit i % kUnits of row i / kUnits.
template <typename Output, int kUnits>
struct OwnUnit {
  int row = static_cast<int>(threadIdx.x) / kUnits;
  int of_block = static_cast<int>(threadIdx.x) % kUnits;
  int unit;
  bool exists;
  typename Output::Inputs inputs = {};

  // Called before WaitForEarlierKernels.
  __device__ OwnUnit(const Output& output, int begin, int num_rows, int num_units)
      : unit(begin + of_block), exists(row < num_rows && unit < num_units) {
    if (exists) inputs = output.LoadWeights(row, unit);
  }
  __device__ void LoadRest(const Output& output) {
    if (exists) output.LoadRest(row, unit, inputs);
  }
};

}  // namespace beamline::cuda
