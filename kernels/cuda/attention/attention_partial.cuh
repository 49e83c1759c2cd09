// Shared by the kernels for few query rows (attention_rows.cu, attention_short.cu): lanes that hold
// 16-byte parts of a head, keys and values that a warp loads together, and running softmaxes.
// Source: Milakov and Gimelshein, arXiv:1805.02867.
#pragma once

#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {

inline constexpr int kKeysInFlight = 4;  // keys that a lane loads before it uses the first

template <typename T>
__device__ float Exp(float x) {
  return sizeof(T) == 4 ? expf(x) : __expf(x);
}

// The elements that a lane holds of a head's row: every kLanes-th 16-byte part. If a head is
// narrower than kWidth, its last part replaces the parts that do not exist. So every load is within
// the head and needs no branch.
template <typename T, int kWidth>
struct LaneColumns {
  static constexpr int kPart = kVecSize<T>;
  static constexpr int kLanes = kWidth / kPart < kWarpSize ? kWidth / kPart : kWarpSize;
  static constexpr int kSize = kWidth / kLanes;  // elements of a lane
  static constexpr int kParts = kSize / kPart;

  int first[kParts];
  bool exists[kParts];

  __device__ explicit LaneColumns(int head_dim) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int column = (p * kLanes + static_cast<int>(threadIdx.x) % kLanes) * kPart;
      exists[p] = column < head_dim;
      first[p] = exists[p] ? column : head_dim - kPart;
    }
  }
};

// A lane's part of a row.
template <typename T, int kWidth>
struct Slice {
  using Columns = LaneColumns<T, kWidth>;

  Vec<T, Columns::kPart> parts[Columns::kParts];

  // Zeros unless `valid`.
  __device__ void Load(const T* row, const Columns& columns, bool valid = true) {
#pragma unroll
    for (int p = 0; p < Columns::kParts; ++p) {
      parts[p] = {};
      if (valid) {
        parts[p] = *reinterpret_cast<const Vec<T, Columns::kPart>*>(row + columns.first[p]);
      }
    }
  }
  // Loads past L1 (launch.cuh) if `valid`. Otherwise keeps the content.
  __device__ void LoadPastL1(const T* row, const Columns& columns, bool valid) {
    static_assert(sizeof(parts[0]) == sizeof(uint4));
#pragma unroll
    for (int p = 0; p < Columns::kParts; ++p) {
      LoadEarlyIf(valid, row + columns.first[p], reinterpret_cast<uint4&>(parts[p]));
    }
  }
  __device__ float At(int i) const {
    return ToFloat(parts[i / Columns::kPart].values[i % Columns::kPart]);
  }
};

// The location of the keys and values of one sequence and one head.
template <typename T>
struct KvPages {
  const T *keys, *values;
  int64_t key_stride, value_stride, block_stride;
  const int32_t* table;  // null: consecutive rows
  int last_block;
  Divisor block_size;

  // The block table's entry for a position. Past the end, the last entry.
  __device__ int32_t Entry(int position) const {
    return table == nullptr ? 0 : table[min(block_size.Quotient(position), last_block)];
  }
  // The same before WaitForEarlierKernels. REQUIRES: `table` is not null.
  __device__ int32_t EarlyEntry(int position) const {
    return LoadEarly(table + min(block_size.Quotient(position), last_block));
  }
  // Loads the key and the value at `position`, given its table entry.
  template <int kWidth>
  __device__ void Load(int position, int32_t entry, const LaneColumns<T, kWidth>& columns,
                       bool valid, Slice<T, kWidth>& key, Slice<T, kWidth>& value) const {
    const int64_t block = entry * block_stride;
    const int within = WithinBlock(position);
    key.Load(keys + block + within * key_stride, columns, valid);
    value.Load(values + block + within * value_stride, columns, valid);
  }
  // The same past L1. Keeps the content unless `valid`.
  template <int kWidth>
  __device__ void LoadPastL1(int position, int32_t entry, const LaneColumns<T, kWidth>& columns,
                             bool valid, Slice<T, kWidth>& key, Slice<T, kWidth>& value) const {
    const int64_t block = entry * block_stride;
    const int within = WithinBlock(position);
    key.LoadPastL1(keys + block + within * key_stride, columns, valid);
    value.LoadPastL1(values + block + within * value_stride, columns, valid);
  }
  __device__ int WithinBlock(int position) const {
    return position - block_size.Quotient(position) * block_size.value();
  }
};

template <typename T>
__device__ KvPages<T> PagesOf(const AttentionArgs<T>& args, int sequence, int first_token,
                              int kv_head) {
  const KvRows<T> keys = RowsOf(args, args.keys, args.key_stride, sequence, first_token, kv_head);
  const KvRows<T> values =
      RowsOf(args, args.values, args.value_stride, sequence, first_token, kv_head);
  return {keys.base,         values.base, keys.row_stride,     values.row_stride,
          args.block_stride, keys.table,  args.max_blocks - 1, args.block_size};
}

// A head of one sequence in the cache, where keys and values have the same layout.
template <typename T>
struct CachedHead {
  const AttentionArgs<T>& args;
  const int32_t* table;
  int first_row;  // of the head, within a block

  // The block table's entry for a position. Past the end, the last entry. The compiler keeps this
  // load where it is written, ahead of the entry's use.
  __device__ int32_t Entry(int position) const {
    int32_t entry;
    asm volatile("ld.global.b32 %0, [%1];\n" : "=r"(entry) : "l"(EntryAt(position)));
    return entry;
  }
  // The same before WaitForEarlierKernels.
  __device__ int32_t EarlyEntry(int position) const { return LoadEarly(EntryAt(position)); }
  __device__ const int32_t* EntryAt(int position) const {
    return table + min(args.block_size.Quotient(position), args.max_blocks - 1);
  }
  __device__ int64_t Offset(int position, int32_t entry) const {
    const int within = position - args.block_size.Quotient(position) * args.block_size.value();
    return entry * args.block_stride + (first_row + within) * args.head_dim;
  }
};

// The running softmax of one row. A lane holds kSize elements of the head.
template <int kSize>
struct Partial {
  float maximum = -INFINITY;
  float total = 0.0f;
  float sum[kSize] = {};

  template <typename T>
  __device__ void Merge(float other_maximum, float other_total, const float (&other_sum)[kSize]) {
    const float new_maximum = fmaxf(maximum, other_maximum);
    if (new_maximum == -INFINITY) return;
    const float own = Exp<T>(maximum - new_maximum);
    const float other = Exp<T>(other_maximum - new_maximum);
    maximum = new_maximum;
    total = total * own + other_total * other;
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum[i] = sum[i] * own + other_sum[i] * other;
  }
};

// scores = the products of a query with keys. kLanes lanes share a key, and each of them gets its
// score.
template <typename T, int kWidth, int kSize, int kKeys>
__device__ void MultiplyKeys(const LaneColumns<T, kWidth>& columns, const float (&query)[kSize],
                             const Slice<T, kWidth> (&keys)[kKeys], float (&scores)[kKeys]) {
  constexpr int kPart = LaneColumns<T, kWidth>::kPart;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    scores[i] = 0.0f;
#pragma unroll
    for (int p = 0; p < kSize / kPart; ++p) {
      float part = 0.0f;
#pragma unroll
      for (int j = p * kPart; j < (p + 1) * kPart; ++j) part += query[j] * keys[i].At(j);
      scores[i] += columns.exists[p] ? part : 0.0f;
    }
  }
#pragma unroll
  for (int offset = LaneColumns<T, kWidth>::kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
    for (int i = 0; i < kKeys; ++i) scores[i] += __shfl_xor_sync(kFullMask, scores[i], offset);
  }
}

// Adds the values of keys with these scores. The score of a masked key is -infinity.
template <typename T, int kWidth, int kSize, int kKeys>
__device__ void AddValues(const float (&scores)[kKeys], const Slice<T, kWidth> (&values)[kKeys],
                          Partial<kSize>& partial) {
  float maximum = partial.maximum;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) maximum = fmaxf(maximum, scores[i]);
  // While a row has seen no key, its maximum is -infinity and every exponential 0.
  const float shift = maximum == -INFINITY ? 0.0f : maximum;
  const float decay = Exp<T>(partial.maximum - shift);
  partial.maximum = maximum;
  partial.total *= decay;
#pragma unroll
  for (int j = 0; j < kSize; ++j) partial.sum[j] *= decay;
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const float p = Exp<T>(scores[i] - shift);
    partial.total += p;
#pragma unroll
    for (int j = 0; j < kSize; ++j) partial.sum[j] += p * values[i].At(j);
  }
}

// Merges the partials of a warp's lanes that took different keys. All lanes get the result.
template <typename T, int kLanes, int kSize>
__device__ void MergeLanes(Partial<kSize>& partial) {
#pragma unroll
  for (int offset = kLanes; offset < kWarpSize; offset *= 2) {
    const float maximum = __shfl_xor_sync(kFullMask, partial.maximum, offset);
    const float total = __shfl_xor_sync(kFullMask, partial.total, offset);
    float sum[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum[j] = __shfl_xor_sync(kFullMask, partial.sum[j], offset);
    partial.template Merge<T>(maximum, total, sum);
  }
}

// Calls body.operator()<kWidth, kEdits>() for the smallest width that holds a head.
template <typename T, typename Body>
void DispatchRows(const AttentionArgs<T>& args, Body body) {
  const auto with_width = [&]<int kWidth>() {
    if (EditsScores(args)) {
      body.template operator()<kWidth, true>();
    } else {
      body.template operator()<kWidth, false>();
    }
  };
  BEAMLINE_CHECK(args.head_dim % kVecSize<T> == 0 && args.head_dim <= 256);
  if (args.head_dim <= 32) {
    with_width.template operator()<32>();
  } else if (args.head_dim <= 64) {
    with_width.template operator()<64>();
  } else if (args.head_dim <= 128) {
    with_width.template operator()<128>();
  } else {
    with_width.template operator()<256>();
  }
}

}  // namespace beamline::cuda
