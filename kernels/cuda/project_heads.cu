// The second half of ProjectHeads: rotary embedding, query scaling, and every head to its place.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;

template <typename T>
struct MoveArgs {
  const T* heads;  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  int64_t heads_stride;
  int num_heads, num_kv_heads, head_dim;
  float query_scale;
  const float* cos_sin;  // [max_positions, rotary_dim]; null without rotary
  int64_t cos_sin_stride;
  int rotary_dim;
  bool interleaved;
  const int32_t* positions;
  T* query;
  int64_t query_stride;
  T* keys;                           // of the cache when slots is set, else packed
  T* values;                         // as keys
  int64_t key_stride, value_stride;  // packed
  const int32_t* slots;              // [num_tokens]; null: packed
  int block_size;
};

// Element d of a head after rotary embedding; `head` points at the head's first element.
template <typename T>
__device__ float Rotated(const MoveArgs<T>& args, const T* head, const float* cos_sin, int d) {
  const int half = args.rotary_dim / 2;
  const bool first = args.interleaved ? d % 2 == 0 : d < half;
  const int pair = args.interleaved ? d / 2 : d % half;
  const int partner = args.interleaved ? d ^ 1 : (first ? d + half : d - half);
  const float own = ToFloat(head[d]) * cos_sin[pair];
  const float other = ToFloat(head[partner]) * cos_sin[half + pair];
  return first ? own - other : own + other;
}

// Where element d of a token's key or value of one head goes.
template <typename T>
__device__ int64_t KvOffset(const MoveArgs<T>& args, int64_t token, int head, int d,
                            int64_t packed_stride) {
  if (args.slots == nullptr) {
    return token * packed_stride + static_cast<int64_t>(head) * args.head_dim + d;
  }
  const int slot = args.slots[token];
  const int64_t block = slot / args.block_size;
  return ((block * args.num_kv_heads + head) * args.block_size + slot % args.block_size) *
             args.head_dim +
         d;
}

// Grid: a block per token; a thread moves kSize elements of one head at a time. Bound by memory:
// the workspace row read (from L2, where the product left it) and written once.
template <typename T, int kSize>
__global__ void MoveHeadsKernel(MoveArgs<T> args) {
  const int64_t token = blockIdx.x;
  const T* row = args.heads + token * args.heads_stride;
  const float* cos_sin = args.cos_sin == nullptr
                             ? nullptr
                             : args.cos_sin + args.positions[token] * args.cos_sin_stride;
  const int num_rotated = args.num_heads + args.num_kv_heads;
  const int width = (args.num_heads + 2 * args.num_kv_heads) * args.head_dim;
  for (int column = threadIdx.x * kSize; column < width; column += blockDim.x * kSize) {
    const int head = column / args.head_dim;
    const int d = column - head * args.head_dim;
    const bool is_query = head < args.num_heads;
    float values[kSize];
    LoadFloats<kSize>(row + column, values);
    if (cos_sin != nullptr && head < num_rotated) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (d + j < args.rotary_dim) values[j] = Rotated(args, row + column - d, cos_sin, d + j);
      }
    }
    if (is_query) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] *= args.query_scale;
      StoreFloats<kSize>(values, args.query + token * args.query_stride + column);
    } else if (head < num_rotated) {
      StoreFloats<kSize>(
          values, args.keys + KvOffset(args, token, head - args.num_heads, d, args.key_stride));
    } else {
      StoreFloats<kSize>(
          values, args.values + KvOffset(args, token, head - num_rotated, d, args.value_stride));
    }
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
    args.num_heads = params.num_heads;
    args.num_kv_heads = params.num_kv_heads;
    args.head_dim = params.head_dim;
    args.query_scale = params.query_scale;
    if (params.rotary != nullptr) {
      args.cos_sin = params.rotary->cos_sin.as<float>();
      args.cos_sin_stride = params.rotary->cos_sin.row_stride;
      args.rotary_dim = static_cast<int>(params.rotary->cos_sin.dim(-1));
      args.interleaved = params.rotary->interleaved;
      args.positions = params.positions;
    }
    args.query = params.query.as<T>();
    args.query_stride = params.query.row_stride;
    const bool paged = params.cache != nullptr;
    args.keys = paged ? params.cache->keys.as<T>() : params.key.as<T>();
    args.values = paged ? params.cache->values.as<T>() : params.value.as<T>();
    args.key_stride = params.key.row_stride;
    args.value_stride = params.value.row_stride;
    args.slots = paged ? params.slots : nullptr;
    args.block_size = paged ? static_cast<int>(params.cache->keys.dim(2)) : 1;
    const int width = (params.num_heads + 2 * params.num_kv_heads) * params.head_dim;
    const bool vectorizable =
        params.head_dim % kVecSize<T> == 0 && IsVectorizable(params.workspace) &&
        IsVectorizable(params.query) &&
        (paged || (IsVectorizable(params.key) && IsVectorizable(params.value)));
    const auto launch = [&]<int kSize>() {
      MoveHeadsKernel<T, kSize>
          <<<static_cast<unsigned>(num_tokens), ThreadsFor(width / kSize, kMostThreads), 0,
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
