// What follows ProjectHeads' product where cuBLASLt computed it, or a norm of heads follows: norms,
// rotary embedding, query scaling, and every head to its place.
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/heads.cuh"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/rows/row_norm.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;

template <typename T>
struct MoveArgs {
  const T* heads;  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  int64_t heads_stride;
  HeadPlaces<T> places;
  RowNorm<T> query_norm, key_norm;  // without gain: none
};

// A head behind its norm.
template <typename T>
struct NormedHead {
  const T* elements;
  const T* gain;  // null: no norm
  const T* bias;
  float mean, inverse_deviation;

  __device__ float operator[](int d) const {
    const float own = ToFloat(elements[d]);
    if (gain == nullptr) return own;
    const float normed = (own - mean) * inverse_deviation * ToFloat(gain[d]);
    return bias == nullptr ? normed : normed + ToFloat(bias[d]);
  }
};

// Finds the mean and the reciprocal of the deviation of the heads that are normed, a warp a head.
template <typename T>
__device__ void FindScales(const MoveArgs<T>& args, const T* row, float2* scales) {
  const HeadPlaces<T>& places = args.places;
  const int lane = threadIdx.x % kWarpSize;
  const int num_warps = blockDim.x / kWarpSize;
  for (int head = threadIdx.x / kWarpSize; head < places.num_heads + places.num_kv_heads;
       head += num_warps) {
    const RowNorm<T>& norm = head < places.num_heads ? args.query_norm : args.key_norm;
    if (norm.gain == nullptr) continue;
    const T* elements = row + static_cast<int64_t>(head) * places.head_dim;
    const float inverse_size = 1.0f / static_cast<float>(places.head_dim);
    float sum = 0.0f, squares = 0.0f;
    for (int d = lane; norm.centred && d < places.head_dim; d += kWarpSize) {
      sum += ToFloat(elements[d]);
    }
    const float mean = WarpSum(sum) * inverse_size;
    for (int d = lane; d < places.head_dim; d += kWarpSize) {
      const float centred = ToFloat(elements[d]) - mean;
      squares += centred * centred;
    }
    const float variance = WarpSum(squares) * inverse_size;
    if (lane == 0) scales[head] = {mean, rsqrtf(variance + norm.epsilon)};
  }
  __syncthreads();
}

// Element d of a head after rotary embedding.
template <typename T>
__device__ float Rotated(const HeadPlaces<T>& places, const NormedHead<T>& head,
                         const float* cos_sin, int d) {
  const int half = places.rotary_dim / 2;
  const bool first = places.interleaved ? d % 2 == 0 : d < half;
  const int pair = places.interleaved ? d / 2 : d % half;
  const int partner = places.interleaved ? d ^ 1 : (first ? d + half : d - half);
  const float own = head[d] * cos_sin[pair];
  const float other = head[partner] * cos_sin[half + pair];
  return first ? own - other : own + other;
}

// Grid: a block per token; a thread moves kSize elements of one head at a time. Bound by memory:
// the workspace row read (from L2, where the product left it) and written once. kNorms: of heads,
// with a float2 of shared memory for each of queries and keys; blocks of whole warps.
template <typename T, int kSize, bool kNorms>
__global__ void MoveHeadsKernel(MoveArgs<T> args) {
  extern __shared__ float2 scales[];
  const HeadPlaces<T>& places = args.places;
  const int64_t token = blockIdx.x;
  const T* row = args.heads + token * args.heads_stride;
  if constexpr (kNorms) FindScales(args, row, scales);
  const float* cos_sin = places.cos_sin == nullptr
                             ? nullptr
                             : places.cos_sin + places.positions[token] * places.cos_sin_stride;
  const int slot = places.SlotOf(token);
  const int width = (places.num_heads + 2 * places.num_kv_heads) * places.head_dim;
  for (int column = threadIdx.x * kSize; column < width; column += blockDim.x * kSize) {
    const int head = column / places.head_dim;
    const int d = column - head * places.head_dim;
    const bool rotates = places.Rotates(head);
    const float scale = places.Scale(head);
    NormedHead<T> normed = {row + column - d};
    if (kNorms && head < places.num_heads + places.num_kv_heads) {
      const RowNorm<T>& norm = head < places.num_heads ? args.query_norm : args.key_norm;
      normed.gain = norm.gain, normed.bias = norm.bias;
      normed.mean = scales[head].x, normed.inverse_deviation = scales[head].y;
    }
    float values[kSize];
    LoadFloats<kSize>(row + column, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (rotates && d + j < places.rotary_dim) {
        values[j] = Rotated(places, normed, cos_sin, d + j);
      } else if (kNorms) {
        values[j] = normed[d + j];
      }
      values[j] *= scale;
    }
    StoreFloats<kSize>(values, places.Head(token, slot, head) + d);
  }
}

}  // namespace

void MoveHeads(Device& device, const ProjectHeadsParams& params) {
  const int64_t num_tokens = params.x.num_rows();
  if (num_tokens == 0) return;
  DispatchFloat(params.workspace.dtype, [&]<typename T>() {
    MoveArgs<T> args = {};
    args.heads = params.workspace.as<T>();
    args.heads_stride = params.workspace.row_stride;
    args.places = MakeHeadPlaces<T>(params);
    const int width = (params.num_heads + 2 * params.num_kv_heads) * params.head_dim;
    const bool paged = params.cache != nullptr;
    const bool vectorizable =
        params.head_dim % kVecSize<T> == 0 && IsVectorizable(params.workspace) &&
        IsVectorizable(params.query) &&
        (paged || (IsVectorizable(params.key) && IsVectorizable(params.value)));
    args.query_norm = MakeRowNorm<T>(params.query_norm, params.head_dim);
    args.key_norm = MakeRowNorm<T>(params.key_norm, params.head_dim);
    const bool norms = args.query_norm.gain != nullptr || args.key_norm.gain != nullptr;
    const size_t shared = norms ? (params.num_heads + params.num_kv_heads) * sizeof(float2) : 0;
    const auto launch = [&]<int kSize>() {
      const auto kernel =
          norms ? MoveHeadsKernel<T, kSize, true> : MoveHeadsKernel<T, kSize, false>;
      kernel<<<static_cast<unsigned>(num_tokens), ThreadsFor(width / kSize, kMostThreads), shared,
               device.stream()>>>(args);
      device.CheckLaunch("ProjectHeads");
    };
    if (vectorizable) {
      launch.template operator()<kVecSize<T>>();
    } else {
      launch.template operator()<1>();
    }
  });
}

}  // namespace beamline::cuda
