// What follows ProjectHeads' product where cuBLASLt computed it: rotary embedding, query scaling,
// and every head to its place.
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/heads.cuh"
#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 256;

template <typename T>
struct MoveArgs {
  const T* heads;  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  int64_t heads_stride;
  HeadPlaces<T> places;
};

// Element d of a head after rotary embedding; `head` points at the head's first element.
template <typename T>
__device__ float Rotated(const HeadPlaces<T>& places, const T* head, const float* cos_sin, int d) {
  const int half = places.rotary_dim / 2;
  const bool first = places.interleaved ? d % 2 == 0 : d < half;
  const int pair = places.interleaved ? d / 2 : d % half;
  const int partner = places.interleaved ? d ^ 1 : (first ? d + half : d - half);
  const float own = ToFloat(head[d]) * cos_sin[pair];
  const float other = ToFloat(head[partner]) * cos_sin[half + pair];
  return first ? own - other : own + other;
}

// Grid: a block per token; a thread moves kSize elements of one head at a time. Bound by memory:
// the workspace row read (from L2, where the product left it) and written once.
template <typename T, int kSize>
__global__ void MoveHeadsKernel(MoveArgs<T> args) {
  const HeadPlaces<T>& places = args.places;
  const int64_t token = blockIdx.x;
  const T* row = args.heads + token * args.heads_stride;
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
    float values[kSize];
    LoadFloats<kSize>(row + column, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (rotates && d + j < places.rotary_dim) {
        values[j] = Rotated(places, row + column - d, cos_sin, d + j);
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
