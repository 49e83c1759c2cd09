// The destinations of ProjectHeads' heads, for the kernels that store them.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/divisor.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// Heads are numbered together: first the queries', then the keys', then the values'.
template <typename T>
struct HeadPlaces {
  int num_heads, num_kv_heads, head_dim;
  float query_scale;
  const float* cos_sin;  // [max_positions, rotary_dim]; null without rotary
  int64_t cos_sin_stride;
  int rotary_dim;
  bool interleaved;
  const int32_t* positions;  // [num_tokens]
  T* query;
  int64_t query_stride;
  T* keys;                           // of the cache if slots is set, else packed
  T* values;                         // as keys
  int64_t key_stride, value_stride;  // packed
  const int32_t* slots;              // [num_tokens]; null: packed
  Divisor block_size;

  // The heads of queries and keys are rotated.
  __device__ bool Rotates(int head) const {
    return cos_sin != nullptr && head < num_heads + num_kv_heads;
  }
  __device__ float Scale(int head) const { return head < num_heads ? query_scale : 1.0f; }
  __device__ int SlotOf(int64_t token) const { return slots == nullptr ? 0 : slots[token]; }

  // The first element of a token's `head`. slot: SlotOf(token).
  __device__ T* Head(int64_t token, int slot, int head) const {
    if (head < num_heads) return query + token * query_stride + head * head_dim;
    int kv_head = head - num_heads;
    const bool is_key = kv_head < num_kv_heads;
    if (!is_key) kv_head -= num_kv_heads;
    T* const base = is_key ? keys : values;
    if (slots == nullptr) {
      return base + token * (is_key ? key_stride : value_stride) + kv_head * head_dim;
    }
    const int block = block_size.Quotient(slot);
    const int64_t row =
        (static_cast<int64_t>(block) * num_kv_heads + kv_head) * block_size.value() +
        (slot - block * block_size.value());
    return base + row * head_dim;
  }
};

template <typename T>
HeadPlaces<T> MakeHeadPlaces(const ProjectHeadsParams& params) {
  HeadPlaces<T> places = {};
  places.num_heads = params.num_heads;
  places.num_kv_heads = params.num_kv_heads;
  places.head_dim = params.head_dim;
  places.query_scale = params.query_scale;
  if (params.rotary != nullptr) {
    places.cos_sin = params.rotary->cos_sin.as<float>();
    places.cos_sin_stride = params.rotary->cos_sin.row_stride;
    places.rotary_dim = static_cast<int>(params.rotary->cos_sin.dim(-1));
    places.interleaved = params.rotary->interleaved;
    places.positions = params.positions;
  }
  places.query = params.query.as<T>();
  places.query_stride = params.query.row_stride;
  const bool paged = params.cache != nullptr;
  places.keys = paged ? params.cache->keys.as<T>() : params.key.as<T>();
  places.values = paged ? params.cache->values.as<T>() : params.value.as<T>();
  places.key_stride = params.key.row_stride;
  places.value_stride = params.value.row_stride;
  places.slots = paged ? params.slots : nullptr;
  if (paged) places.block_size = Divisor(static_cast<int>(params.cache->keys.dim(2)));
  return places;
}

}  // namespace beamline::cuda
