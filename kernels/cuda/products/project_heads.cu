// The pass after ProjectHeads' product, if cuBLASLt computed it or heads have a norm: norms, rotary
// embedding, query scaling, and the move of every head to its destination.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/heads.cuh"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/rows/row_norm.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int64_t kBlocksPerMultiprocessor = 2;

template <typename T>
struct MoveArgs {
  const T* heads;  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  int64_t heads_stride;
  HeadPlaces<T> places;
  RowNorm<T> query_norm, key_norm;  // of each head; without gain: none
  float clip;                       // 0: none
  int heads_per_block;
};

// A head after its clip or its norm.
template <typename T>
struct NormedHead {
  const T* elements;
  const T* gain;  // null: no norm
  const T* bias;
  float mean, inverse_deviation;
  float clip;  // 0: none

  __device__ float operator[](int d) const { return Normed(ToFloat(elements[d]), d); }
  // Element d. `own`: its loaded value.
  __device__ float Normed(float own, int d) const {
    if (clip > 0.0f) own = own > clip ? clip : own < -clip ? -clip : own;  // NaN stays
    if (gain == nullptr) return own;
    const float normed = (own - mean) * inverse_deviation * ToFloat(gain[d]);
    return bias == nullptr ? normed : normed + ToFloat(bias[d]);
  }
};

// Computes the mean and the reciprocal of the deviation of the heads in [begin, end) that have a
// norm, one warp per head.
template <typename T>
__device__ void FindScales(const MoveArgs<T>& args, const T* row, int begin, int end,
                           float2* scales) {
  const HeadPlaces<T>& places = args.places;
  const int lane = threadIdx.x % kWarpSize;
  const int num_warps = blockDim.x / kWarpSize;
  end = min(end, places.num_heads + places.num_kv_heads);
  for (int head = begin + threadIdx.x / kWarpSize; head < end; head += num_warps) {
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
    if (lane == 0) scales[head - begin] = {mean, rsqrtf(variance + norm.epsilon)};
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

// The same for kSize elements from d on, whose partners are consecutive too. `values` holds the
// elements as loaded.
template <typename T, int kSize>
__device__ void RotateTogether(const HeadPlaces<T>& places, const NormedHead<T>& head,
                               const float* cos_sin, int d, float (&values)[kSize]) {
  const int half = places.rotary_dim / 2;
  const bool first = d < half;
  const int pair = first ? d : d - half;
  const int partner = first ? d + half : d - half;
  float others[kSize];
  LoadFloats<kSize>(head.elements + partner, others);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    const float own = head.Normed(values[j], d + j) * cos_sin[pair + j];
    const float other = head.Normed(others[j], partner + j) * cos_sin[half + pair + j];
    values[j] = first ? own - other : own + other;
  }
}

// Grid: (tokens, groups of heads_per_block heads). A thread moves kSize elements of one head at a
// time. Bound by memory: the workspace row is read (from L2, where the product left it) and written
// once. kNorms: heads have a norm, with a float2 of shared memory for each of a block's heads;
// blocks are whole warps.
template <typename T, int kSize, bool kNorms>
__global__ void MoveHeadsKernel(MoveArgs<T> args) {
  extern __shared__ float2 scales[];
  const HeadPlaces<T>& places = args.places;
  const int64_t token = blockIdx.x;
  const T* row = args.heads + token * args.heads_stride;
  const int first_head = blockIdx.y * args.heads_per_block;
  const int last_head =
      min(first_head + args.heads_per_block, places.num_heads + 2 * places.num_kv_heads);
  if constexpr (kNorms) FindScales(args, row, first_head, last_head, scales);
  const float* cos_sin = places.cos_sin == nullptr
                             ? nullptr
                             : places.cos_sin + places.positions[token] * places.cos_sin_stride;
  const int slot = places.SlotOf(token);
  const bool together = !places.interleaved && places.rotary_dim % (2 * kSize) == 0;
  const int end = last_head * places.head_dim;
  for (int column = first_head * places.head_dim + threadIdx.x * kSize; column < end;
       column += blockDim.x * kSize) {
    const int head = column / places.head_dim;
    const int d = column - head * places.head_dim;
    const bool rotates = places.Rotates(head);
    const float scale = places.Scale(head);
    NormedHead<T> normed = {row + column - d};  // only kNorms sets its gain
    normed.clip = args.clip;
    if (kNorms && head < places.num_heads + places.num_kv_heads) {
      const RowNorm<T>& norm = head < places.num_heads ? args.query_norm : args.key_norm;
      normed.gain = norm.gain, normed.bias = norm.bias;
      normed.mean = scales[head - first_head].x;
      normed.inverse_deviation = scales[head - first_head].y;
    }
    float values[kSize];
    LoadFloats<kSize>(row + column, values);
    if (kSize > 1 && together && rotates && d < places.rotary_dim) {
      RotateTogether(places, normed, cos_sin, d, values);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (rotates && d + j < places.rotary_dim) {
          values[j] = Rotated(places, normed, cos_sin, d + j);
        } else {
          values[j] = normed.Normed(values[j], d + j);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] *= scale;
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
    const int num_heads = params.num_heads + 2 * params.num_kv_heads;
    const bool paged = params.cache != nullptr;
    const bool vectorizable =
        params.head_dim % kVecSize<T> == 0 && IsVectorizable(params.workspace) &&
        IsVectorizable(params.query) &&
        (paged || (IsVectorizable(params.key) && IsVectorizable(params.value)));
    args.query_norm = MakeRowNorm<T>(params.query_norm, params.head_dim);
    args.key_norm = MakeRowNorm<T>(params.key_norm, params.head_dim);
    args.clip = params.clip;
    const bool norms = args.query_norm.gain != nullptr || args.key_norm.gain != nullptr;
    // A few tokens are divided among more blocks. A single block would take several turns that wait
    // for each other.
    const int64_t blocks_per_token = std::clamp<int64_t>(
        CeilDiv(kBlocksPerMultiprocessor * device.num_multiprocessors(), num_tokens), 1, num_heads);
    args.heads_per_block = static_cast<int>(CeilDiv<int64_t>(num_heads, blocks_per_token));
    const size_t shared = norms ? args.heads_per_block * sizeof(float2) : 0;
    const dim3 grid(static_cast<unsigned>(num_tokens),
                    static_cast<unsigned>(CeilDiv(num_heads, args.heads_per_block)));
    const auto launch = [&]<int kSize>() {
      const auto kernel =
          norms ? MoveHeadsKernel<T, kSize, true> : MoveHeadsKernel<T, kSize, false>;
      const int elements = args.heads_per_block * params.head_dim;
      kernel<<<grid, ThreadsFor(elements / kSize, kMostThreads), shared, device.stream()>>>(args);
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
