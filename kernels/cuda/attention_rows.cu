// Attention for few query rows: decoding, short chunks, and float32 prefill of large heads.
// Flash-decoding: the keys of a sequence are split over blocks when there are too few rows to fill
// the GPU.
// Sources: Milakov and Gimelshein, arXiv:1805.02867; Dao et al., "Flash-Decoding", 2023.
#include "kernels/cuda/attention_args.cuh"
#include "kernels/cuda/attention_picker.h"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kKeysInFlight = 4;  // that a lane loads before it uses the first

// The unfinished softmax of each split, merged by MergeSplitsKernel.
struct Splits {
  int count;
  float* sums;      // [num_tokens, num_heads, count, head_dim]; null with one split
  float2* weights;  // [num_tokens, num_heads, count]: maximum, sum of exponentials
};

template <typename T>
__device__ float Exp(float x) {
  return sizeof(T) == 4 ? expf(x) : __expf(x);
}

// What a lane holds of a row of a head: every kLanes-th 16-byte part. Parts past head_dim keep
// their zeros.
template <typename T, int kHeadDim, bool kPadded>
struct Slice {
  static constexpr int kPart = kVecSize<T>;
  static constexpr int kLanes = kHeadDim / kPart < kWarpSize ? kHeadDim / kPart : kWarpSize;
  static constexpr int kSize = kHeadDim / kLanes;  // elements

  Vec<T, kPart> parts[kSize / kPart] = {};

  // The column of element i.
  __device__ static int Column(int i) {
    const int lane = threadIdx.x % kLanes;
    return (i / kPart * kLanes + lane) * kPart + i % kPart;
  }
  __device__ void Load(const T* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < kSize; i += kPart) {
      if (kPadded && Column(i) >= head_dim) break;
      parts[i / kPart] = *reinterpret_cast<const Vec<T, kPart>*>(row + Column(i));
    }
  }
  __device__ float At(int i) const { return ToFloat(parts[i / kPart].values[i % kPart]); }
};

// One row's running softmax, a lane holding kSize elements of the head.
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

// The product of a query and a key that kLanes lanes share; every one of them gets it.
template <int kLanes, int kSize, typename Keys>
__device__ float Dot(const float (&query)[kSize], const Keys& key) {
  float score = 0.0f;
#pragma unroll
  for (int j = 0; j < kSize; ++j) score += query[j] * key.At(j);
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    score += __shfl_xor_sync(kFullMask, score, offset);
  }
  return score;
}

// Adds keys of the given scores; `maximum` is the largest of these and of what the partial has
// seen.
template <typename T, int kSize, typename Values>
__device__ void Accumulate(const float (&scores)[kKeysInFlight],
                           const Values (&values)[kKeysInFlight], float maximum,
                           Partial<kSize>& partial) {
  // While a row has seen no key, its maximum is -infinity and every exponential 0.
  const float shift = maximum == -INFINITY ? 0.0f : maximum;
  const float decay = Exp<T>(partial.maximum - shift);
  partial.maximum = maximum;
  partial.total *= decay;
#pragma unroll
  for (int j = 0; j < kSize; ++j) partial.sum[j] *= decay;
#pragma unroll
  for (int i = 0; i < kKeysInFlight; ++i) {
    const float p = Exp<T>(scores[i] - shift);
    partial.total += p;
#pragma unroll
    for (int j = 0; j < kSize; ++j) partial.sum[j] += p * values[i].At(j);
  }
}

// Merges the partials of the lanes of a warp that have taken different keys.
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

// kLanes lanes share a key: each loads 16 or 32 bytes of it and of its value. The lanes of a warp,
// and the warps, take different keys and merge their softmaxes at the end. Heads of exactly
// kHeadDim elements, or of fewer (kPadded).
// Grid: (row blocks x splits, key-value heads, sequences); shared memory: a head for each warp and
// row. Bound by memory when decoding: every key and value read once for kRows query rows.
template <typename T, int kHeadDim, bool kPadded, int kRows>
__global__ void __launch_bounds__(kThreads) RowsKernel(AttentionArgs<T> args, Splits splits) {
  using LaneSlice = Slice<T, kHeadDim, kPadded>;
  constexpr int kLanes = LaneSlice::kLanes, kSize = LaneSlice::kSize;
  constexpr int kKeysPerWarp = kWarpSize / kLanes;
  constexpr int kKeysPerStep = kKeysPerWarp * kWarps;
  __shared__ float sums[kWarps][kRows][kHeadDim];
  __shared__ float2 weights[kWarps][kRows];
  const int sequence = blockIdx.z;
  const int kv_head = blockIdx.y;
  const int split = blockIdx.x % splits.count;
  const int first_row = blockIdx.x / splits.count * kRows;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = SpanOf(args, sequence);
  const int num_rows = min(kRows, span.query_length * args.group_size - first_row);
  if (num_rows <= 0) return;
  const int head_dim = kPadded ? args.head_dim : kHeadDim;
  const KvRows<T> keys =
      RowsOf(args, args.keys, args.key_stride, sequence, span.first_query, kv_head);
  const KvRows<T> values =
      RowsOf(args, args.values, args.value_stride, sequence, span.first_query, kv_head);
  const auto head_of = [&](int r) {
    return kv_head * args.group_size + (first_row + r) % args.group_size;
  };
  const auto query_of = [&](int r) { return (first_row + r) / args.group_size; };

  float q[kRows][kSize] = {};
  int num_keys[kRows] = {};  // that a row sees
  int most_keys = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= num_rows) break;
    const int64_t token = span.first_query + query_of(r);
    LaneSlice query;
    query.Load(args.query + token * args.query_stride + static_cast<int64_t>(head_of(r)) * head_dim,
               head_dim);
#pragma unroll
    for (int j = 0; j < kSize; ++j) q[r][j] = query.At(j);
    const int position = span.context - span.query_length + query_of(r);
    num_keys[r] = args.causal ? max(0, position + 1) : span.context;
    most_keys = max(most_keys, num_keys[r]);
  }
  // Splits are cut by the whole context, so that they do not depend on the row block.
  const int keys_per_split = ((span.context + splits.count - 1) / splits.count + kKeysPerStep - 1) /
                             kKeysPerStep * kKeysPerStep;
  const int begin = split * keys_per_split;
  const int end = min(most_keys, begin + keys_per_split);

  Partial<kSize> partials[kRows];
  LaneSlice k[kKeysInFlight], v[kKeysInFlight];
  for (int key0 = begin + warp * kKeysPerWarp + lane / kLanes; key0 - lane / kLanes < end;
       key0 += kKeysPerStep * kKeysInFlight) {
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      const int key = min(key0 + i * kKeysPerStep, end - 1);
      k[i].Load(keys.Row(key), head_dim);
      v[i].Load(values.Row(key), head_dim);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= num_rows) break;
      Partial<kSize>& partial = partials[r];
      float scores[kKeysInFlight];
      float maximum = partial.maximum;
#pragma unroll
      for (int i = 0; i < kKeysInFlight; ++i) {
        const int key = key0 + i * kKeysPerStep;
        float score = Dot<kLanes>(q[r], k[i]);
        if (HasBias(args)) {
          score += BiasOf(args, head_of(r), span.context - span.query_length + query_of(r), key);
        }
        scores[i] = key < min(end, num_keys[r]) ? score : -INFINITY;
        maximum = fmaxf(maximum, scores[i]);
      }
      Accumulate<T>(scores, v, maximum, partial);
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Partial<kSize>& partial = partials[r];
    MergeLanes<T, kLanes>(partial);
    if (lane < kLanes) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[warp][r][LaneSlice::Column(j)] = partial.sum[j];
      if (lane == 0) weights[warp][r] = {partial.maximum, partial.total};
    }
  }
  __syncthreads();

  for (int i = threadIdx.x; i < num_rows * head_dim; i += kThreads) {
    const int r = i / head_dim;
    const int column = i % head_dim;
    float maximum = -INFINITY, total = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, weights[w][r].x);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (weights[w][r].x == -INFINITY) continue;
      const float weight = Exp<T>(weights[w][r].x - maximum);
      total += weights[w][r].y * weight;
      sum += sums[w][r][column] * weight;
    }
    const int64_t token = span.first_query + query_of(r);
    const int head = head_of(r);
    if (splits.sums == nullptr) {
      // A query without keys gets zeros.
      args.output[token * args.output_stride + static_cast<int64_t>(head) * head_dim + column] =
          FromFloat<T>(total == 0.0f ? 0.0f : sum / total);
    } else {
      const int64_t row = token * args.num_kv_heads * args.group_size + head;
      const int64_t at = row * splits.count + split;
      splits.sums[at * head_dim + column] = sum;
      if (column == 0) splits.weights[at] = {maximum, total};
    }
  }
}

// Grid: (tokens, heads), a thread per element. Bound by memory: the splits' sums read once.
template <typename T>
__global__ void MergeSplitsKernel(AttentionArgs<T> args, Splits splits) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y;
  const float2* weights = splits.weights + row * splits.count;
  const float* sums = splits.sums + row * splits.count * args.head_dim + threadIdx.x;
  float maximum = -INFINITY, total = 0.0f, sum = 0.0f;
  for (int s = 0; s < splits.count; ++s) maximum = fmaxf(maximum, weights[s].x);
  for (int s = 0; s < splits.count; ++s) {
    if (weights[s].x == -INFINITY) continue;
    const float weight = Exp<T>(weights[s].x - maximum);
    total += weights[s].y * weight;
    sum += sums[s * args.head_dim] * weight;
  }
  args.output[blockIdx.x * args.output_stride + blockIdx.y * args.head_dim + threadIdx.x] =
      FromFloat<T>(total == 0.0f ? 0.0f : sum / total);
}

}  // namespace

template <typename T>
void AttendRows(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                int rows_per_block, int num_splits) {
  const int64_t num_tokens = params.query.num_rows();
  Splits splits = {num_splits, nullptr, nullptr};
  if (num_splits > 1) {
    const auto entries = static_cast<size_t>(num_tokens * params.num_heads * num_splits);
    splits.sums = device.TakeScratch<float>(entries * params.head_dim);
    splits.weights = device.TakeScratch<float2>(entries);
    if (!device.ok()) return;
  }
  const auto launch = [&]<int kHeadDim, bool kPadded>() {
    const auto kernel = rows_per_block == 1 ? RowsKernel<T, kHeadDim, kPadded, 1>
                                            : RowsKernel<T, kHeadDim, kPadded, kMostRowsPerBlock>;
    const int rows = params.max_query_length * args.group_size;
    const dim3 grid(
        static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block * num_splits),
        static_cast<unsigned>(params.num_kv_heads), static_cast<unsigned>(params.num_sequences));
    kernel<<<grid, kThreads, 0, device.stream()>>>(args, splits);
    device.CheckLaunch("Attention (rows)");
  };
  const int head_dim = params.head_dim;
  BEAMLINE_CHECK(rows_per_block == 1 || rows_per_block == kMostRowsPerBlock);
  BEAMLINE_CHECK(head_dim % kVecSize<T> == 0 && head_dim <= 256);
  if (head_dim == 64) {
    launch.template operator()<64, false>();
  } else if (head_dim == 128) {
    launch.template operator()<128, false>();
  } else if (head_dim <= 32) {
    launch.template operator()<32, true>();
  } else if (head_dim < 64) {
    launch.template operator()<64, true>();
  } else if (head_dim < 128) {
    launch.template operator()<128, true>();
  } else {
    launch.template operator()<256, true>();
  }
  if (num_splits > 1) {
    const dim3 grid(static_cast<unsigned>(num_tokens), static_cast<unsigned>(params.num_heads));
    MergeSplitsKernel<<<grid, params.head_dim, 0, device.stream()>>>(args, splits);
    device.CheckLaunch("Attention (rows)");
  }
}

template void AttendRows(Device&, const AttentionArgs<float>&, const AttentionParams&, int, int);
template void AttendRows(Device&, const AttentionArgs<__half>&, const AttentionParams&, int, int);
template void AttendRows(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&, int,
                         int);

}  // namespace beamline::cuda
