// The arguments of all attention kernels, and functions that find a sequence's rows, keys and
// values.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/divisor.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/rounded_alibi.h"

namespace beamline::cuda {

// Query rows of a sequence and a key-value head are numbered query-major: row / group_size is the
// query, row % group_size the query head within its group.
template <typename T>
struct AttentionArgs {
  const T* query;  // [num_tokens, num_heads * head_dim]
  T* output;       // as query
  int64_t query_stride, output_stride;
  const T* keys;                     // packed [num_tokens, num_kv_heads * head_dim], or the cache
  const T* values;                   // as keys
  int64_t key_stride, value_stride;  // between positions
  const int32_t* block_tables;       // null: packed
  int max_blocks;
  Divisor block_size;    // packed: larger than all positions, so that these are in block 0
  int64_t block_stride;  // between blocks of the cache
  const int32_t* query_offsets;
  const int32_t* context_lengths;  // null: packed
  int num_kv_heads, group_size, head_dim;
  float scale;  // of the products of queries and keys
  // Multiplies a product, or a score if scores are edited. The result is the exponent of a power of
  // two.
  float log2_factor;
  bool causal;
  int window;                 // a query sees its own key and window - 1 keys before it
  int ahead;                  // and this many keys after it
  const float* alibi_slopes;  // may be null
  float rounded_alibi_factor;
  const void* position_bias;  // float32 or T; may be null
  bool bias_is_float;
  int64_t bias_stride;
  int max_distance;
  float softcap;  // 0: none
  // RelativePositions; null: none.
  const T* position_keys;
  const T* position_queries;
  int64_t position_key_stride, position_query_stride;
  const int32_t* position_rows;
  int max_position_distance;
};

// The row of RelativePositions for a query at `position` and a key.
template <typename T>
__device__ int PositionRow(const AttentionArgs<T>& args, int position, int key) {
  const int most = args.max_position_distance;
  return args.position_rows[most + min(max(key - position, -most), most)];
}

// The query at `position` sees the keys from KeysBegin, which may be negative, to KeysEnd - 1.
template <typename T>
__device__ int KeysBegin(const AttentionArgs<T>& args, int position) {
  return position + 1 - args.window;
}
template <typename T>
__device__ int KeysEnd(const AttentionArgs<T>& args, int position, int context) {
  return min(context, max(0, position + 1 + args.ahead));
}

struct SequenceSpan {
  int first_query;  // row of query
  int query_length;
  int context;  // keys
};

template <typename T>
__device__ SequenceSpan SpanOf(const AttentionArgs<T>& args, int sequence) {
  SequenceSpan span;
  span.first_query = args.query_offsets[sequence];
  span.query_length = args.query_offsets[sequence + 1] - span.first_query;
  span.context =
      args.context_lengths == nullptr ? span.query_length : args.context_lengths[sequence];
  return span;
}

// The same before WaitForEarlierKernels.
template <typename T>
__device__ SequenceSpan EarlySpanOf(const AttentionArgs<T>& args, int sequence) {
  SequenceSpan span;
  span.first_query = LoadEarly(args.query_offsets + sequence);
  const int next_query = LoadEarly(args.query_offsets + sequence + 1);
  span.query_length = next_query - span.first_query;
  span.context = args.context_lengths == nullptr ? span.query_length
                                                 : LoadEarly(args.context_lengths + sequence);
  return span;
}

// The location of the keys (or values) of one sequence and one head.
template <typename T>
struct KvRows {
  const T* base;
  int64_t row_stride;
  const int32_t* table;  // null: consecutive rows
  Divisor block_size;
  int64_t block_stride;

  __device__ const T* Row(int position) const {
    if (table == nullptr) return base + position * row_stride;
    const int block = block_size.Quotient(position);
    return base + table[block] * block_stride +
           (position - block * block_size.value()) * row_stride;
  }
};

template <typename T>
__device__ KvRows<T> RowsOf(const AttentionArgs<T>& args, const T* base, int64_t packed_stride,
                            int sequence, int first_token, int kv_head) {
  KvRows<T> rows;
  rows.block_size = args.block_size;
  rows.block_stride = args.block_stride;
  if (args.block_tables == nullptr) {
    rows.table = nullptr;
    rows.base = base + first_token * packed_stride + static_cast<int64_t>(kv_head) * args.head_dim;
    rows.row_stride = packed_stride;
  } else {
    rows.table = args.block_tables + static_cast<int64_t>(sequence) * args.max_blocks;
    rows.base = base + static_cast<int64_t>(kv_head) * args.block_size.value() * args.head_dim;
    rows.row_stride = args.head_dim;
  }
  return rows;
}

// Whether scores are more than scaled products, and need EditedScore.
template <typename T>
__host__ __device__ bool EditsScores(const AttentionArgs<T>& args) {
  return args.alibi_slopes != nullptr || args.position_bias != nullptr || args.softcap > 0.0f;
}

// The bias of a head for the score of a query at `position` and a key.
template <typename T>
__device__ float BiasOf(const AttentionArgs<T>& args, int head, int position, int key) {
  const int distance = key - position;
  float bias = 0.0f;
  if (args.alibi_slopes != nullptr) {
    const float slope = args.alibi_slopes[head];
    bias += args.rounded_alibi_factor > 0.0f ? RoundedAlibi(slope, key, args.rounded_alibi_factor)
                                             : -slope * static_cast<float>(abs(distance));
  }
  if (args.position_bias != nullptr) {
    const int64_t at = head * args.bias_stride + args.max_distance +
                       min(max(distance, -args.max_distance), args.max_distance);
    bias += args.bias_is_float ? static_cast<const float*>(args.position_bias)[at]
                               : ToFloat(static_cast<const T*>(args.position_bias)[at]);
  }
  return bias;
}

// The score of a query at `position` and a key, with softcap and bias.
template <typename T>
__device__ float EditedScore(const AttentionArgs<T>& args, int head, int position, int key,
                             float score) {
  if (args.softcap > 0.0f) score = args.softcap * tanhf(score / args.softcap);
  return score + BiasOf(args, head, position, key);
}

// The launchers, one per kernel. attention.cu chooses.
template <typename T>
void AttendMath(Device& device, const AttentionArgs<T>& args, const AttentionParams& params);
template <typename T>
void AttendRows(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                const AttentionChoice& choice);
template <typename T>
void AttendShortRows(Device& device, const AttentionArgs<T>& args, const AttentionParams& params);
template <typename T>
void AttendGroups(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                  const AttentionChoice& choice);
void AttendTiles(Device& device, const AttentionArgs<float>& args, const AttentionParams& params);
template <typename T>
void AttendTensorCore(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                      int rows_per_block);
template <typename T>
void AttendDisentangled(Device& device, const AttentionArgs<T>& args,
                        const AttentionParams& params);
template <typename T>
void AttendWgmma(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                 int rows_per_block);

}  // namespace beamline::cuda
