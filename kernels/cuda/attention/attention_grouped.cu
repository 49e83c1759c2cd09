// Attention for few query rows that share a key-value head of the cache: decoding with grouped
// queries, and a few queries of one sequence. Tensor cores (sm_80 and newer) multiply 16 keys by
// eight rows at a time, so that most time goes to reading the cache. Every warp streams its own
// keys through shared memory, and waits for other warps only at the end. The keys are split over
// blocks by their number, and into smaller splits if the sequence has the GPU to itself. Its bits
// depend on the batch only in that. Long because keys are split, computed and merged here.
// Source: Dao et al., "Flash-Decoding", 2023.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/attention/attention_group_warp.cuh"
#include "kernels/cuda/attention/attention_partial.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scratch_size.h"

namespace beamline::cuda {
namespace {

// The unfinished softmax of each split. MergeGroupSplitsKernel merges them. A launch computes a
// part of the batch.
struct GroupSplits {
  int count;           // in the grid
  int most;            // limit for any context
  bool fine;           // smaller splits, if all blocks run at once
  int first_sequence;  // of the launch
  int num_rows;        // of a sequence and key-value head, at most
  float* sums;         // [sequences, num_kv_heads, num_rows, count, head_dim]; null with one split
  float2* weights;     // [sequences, num_kv_heads, num_rows, count]: maximum, sum of powers of two

  // Keys per split. It depends only on the sequence and on kFine.
  template <bool kFine>
  __device__ int KeysOf(int context) const {
    constexpr int kStep = 64;
    const int keys = RoundUp(CeilDiv(context, most), kStep);
    const bool fine = kFine && context > kFewestKeysPerGroupSplit;
    return max(fine ? kFewestKeysPerFineSplit : kFewestKeysPerGroupSplit, keys);
  }
  // The index in `weights` of a row of this block's split.
  __device__ int64_t IndexOf(int row) const {
    const int64_t head = int64_t{blockIdx.z} * gridDim.y + blockIdx.y;
    return (head * num_rows + row) * count + blockIdx.x;
  }
};

template <typename T>
__device__ BlockRows RowsOfBlock(const AttentionArgs<T>& args, const SequenceSpan& span,
                                 int kv_head, const Divisor& group_size, int most) {
  return {min(most, span.query_length * args.group_size), span.first_query,
          span.context - span.query_length, kv_head, group_size};
}

// Copies the query rows. Rows that do not exist and elements past the head become zeros.
template <typename S, typename T>
__device__ void CopyQueries(const AttentionArgs<T>& args, const BlockRows& rows,
                            SwizzledTile<T, S::kWidth> queries) {
#pragma unroll
  for (int i = threadIdx.x; i < S::kRows * S::kChunks; i += S::kThreads) {
    const int row = i / S::kChunks, chunk = i % S::kChunks;
    const bool valid = row < rows.count && chunk * 8 < args.head_dim;
    const T* const from = args.query + rows.Token(row) * args.query_stride +
                          rows.Head(row) * args.head_dim + chunk * 8;
    CopyAsync(queries.Chunk(row, chunk), valid ? from : args.query, valid);
  }
}

// CopyAsync for bytes that L2 evicts first. Nothing reads them again before the next step, and the
// sums of the splits should stay in L2.
__device__ inline void CopyOnce(void* shared, const void* global, bool valid) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;\n" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;\n" ::"r"(
                   SharedAddress(shared)),
               "l"(global), "r"(valid ? 16 : 0), "l"(policy));
}

// The keys of a stage that a call copies: all keys, those before the first key that the previous
// kernel may still write, or the rest.
enum class KeysCopied { kAll, kWritten, kRest };

// Copies a warp's keys and values from `first` on. Those past `end` and elements past the head
// become zeros. `entry`: the block table's entry for the key at first + lane % kKeys. `written`:
// kWritten copies the keys before it, kRest the keys from it on.
template <typename S, KeysCopied kCopied = KeysCopied::kAll, typename T>
__device__ void CopyKeys(const CachedHead<T>& cached, int first, int end, int32_t entry, T* stage,
                         int written = 0) {
  constexpr int kChunks = S::kChunks;
  constexpr bool kWholeRows = kWarpSize % kChunks == 0;
  const AttentionArgs<T>& args = cached.args;
  const SwizzledTile<T, S::kWidth> keys = {stage};
  const int lane = threadIdx.x % kWarpSize;
  const int own_key = first + lane % S::kKeys;
  // Counts 16-byte parts of the cache. kMostGroupCacheBytes keeps the count within 32 bits.
  const uint32_t own =
      own_key < end ? static_cast<uint32_t>(cached.Offset(own_key, entry) >> 3) : 0;
#pragma unroll
  for (int i = 0; i < S::kKeys * kChunks / kWarpSize; ++i) {
    const int row =
        kWholeRows ? lane / kChunks + i * (kWarpSize / kChunks) : (lane + i * kWarpSize) / kChunks;
    const int chunk = kWholeRows ? lane % kChunks : (lane + i * kWarpSize) % kChunks;
    const bool inside = chunk * 8 < args.head_dim;
    const bool valid = inside && row < end - first;
    const uint32_t part = __shfl_sync(kFullMask, own, row) + (inside ? chunk : 0);
    if (kCopied == KeysCopied::kWritten && row >= written - first) continue;
    if (kCopied == KeysCopied::kRest && row < written - first) continue;
    const uint64_t offset = uint64_t{part} * 8;
    T* const to = keys.Chunk(row, chunk);
    CopyOnce(to, args.keys + offset, valid);
    CopyOnce(to + S::kTileSize, args.values + offset, valid);
  }
}

// Merges the warps' rows and stores them as the output, or as the sums of one split.
template <typename S, typename T>
__device__ void StoreRows(const AttentionArgs<T>& args, const GroupSplits& splits,
                          const BlockRows& rows, const float* sums,
                          const float2 (&weights)[S::kWarps][S::kRows]) {
  constexpr int kParts = S::kWidth / 4;
  for (int i = threadIdx.x; i < rows.count * kParts; i += S::kThreads) {
    const int row = i / kParts, column = i % kParts * 4;
    if (column >= args.head_dim) continue;
    float maximum = -INFINITY;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) maximum = fmaxf(maximum, weights[w][row].x);
    const float shift = maximum == -INFINITY ? 0.0f : maximum;
    float total = 0.0f, sum[4] = {};
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) {
      const float share = exp2f(weights[w][row].x - shift);
      float part[4];
      LoadFloats(sums + (w * S::kRows + row) * S::kSumStride + column, part);
      total += weights[w][row].y * share;
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += part[j] * share;
    }
    if (splits.sums == nullptr) {
      // A query without keys gets zeros.
      const float scale = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] *= scale;
      StoreFloats<4>(sum, args.output + rows.Token(row) * args.output_stride +
                              rows.Head(row) * args.head_dim + column);
    } else {
      const int64_t at = splits.IndexOf(row);
      StoreFloats<4>(sum, splits.sums + at * args.head_dim + column);
      if (column == 0) splits.weights[at] = {maximum, total};
    }
  }
}

// Blocks per multiprocessor: as many as fit into the shared memory of sm_90 and, with two tiles,
// into its registers.
template <typename S>
constexpr int kFewestBlocks = std::min((227 << 10) / (S::kSharedBytes + (2 << 10)),
                                       S::kTiles == 1    ? 8
                                       : S::kWidth == 64 ? 4
                                                         : 3);

// Grid: (splits, key-value heads, sequences). Shared memory: the queries and each warp's stages,
// later the warps' sums. Bound by memory: every key and value is read once for all rows. With few
// blocks bound by latencies. With kEarly, the latencies of the block tables and of the first keys
// pass before WaitForEarlierKernels, because the previous kernel writes only the sequence's own
// rows.
template <typename T, typename S, bool kEarly, bool kFine>
__global__ void __launch_bounds__(S::kThreads, kFewestBlocks<S>)
    GroupKernel(AttentionArgs<T> args, GroupSplits splits, Divisor group_size) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float2 weights[S::kWarps][S::kRows];
  if constexpr (!kEarly) WaitForEarlierKernels();
  const int split = blockIdx.x;
  const int kv_head = blockIdx.y;
  const int sequence = splits.first_sequence + blockIdx.z;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const CachedHead<T> cached = {args, args.block_tables + int64_t{sequence} * args.max_blocks,
                                kv_head * args.block_size.value()};
  int begin = split * (kFine ? kFewestKeysPerFineSplit : kFewestKeysPerGroupSplit);
  const auto first_key = [&](int step) { return begin + (step * S::kWarps + warp) * S::kKeys; };
  const auto entry_of = [&](int step) { return cached.Entry(first_key(step) + lane % S::kKeys); };
  const auto first_entry_of = [&](int step) {
    return kEarly ? cached.EarlyEntry(first_key(step) + lane % S::kKeys) : entry_of(step);
  };
  // Loaded before the context length is known, so that both loads wait together.
  int32_t entries[S::kStages];
#pragma unroll
  for (int i = 0; i < S::kStages; ++i) entries[i] = first_entry_of(i);
  const SequenceSpan span = kEarly ? EarlySpanOf(args, sequence) : SpanOf(args, sequence);
  const BlockRows rows = RowsOfBlock(args, span, kv_head, group_size, splits.num_rows);
  const int keys_per_split = splits.KeysOf<kFine>(span.context);
  if (split * keys_per_split != begin) {
    begin = split * keys_per_split;
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) entries[i] = first_entry_of(i);
  }
  const int end = min(span.context, begin + keys_per_split);
  // The merge reads the weights of all num_rows rows, even of rows that do not exist.
  const bool empty = rows.count == 0 || (split > 0 && begin >= end);
  T* const query_data = reinterpret_cast<T*>(shared);
  const SwizzledTile<T, S::kWidth> queries = {query_data};
  T* const stages = query_data + S::kRows * S::kWidth + warp * S::kStages * S::kStageSize;
  const int written = min(end, span.context - span.query_length);
  if constexpr (kEarly) {
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) {
      if (empty || first_key(i) >= written) break;
      CopyKeys<S, KeysCopied::kWritten>(cached, first_key(i), end, entries[i],
                                        stages + i * S::kStageSize, written);
    }
    WaitForEarlierKernels();
  }
  if (splits.sums != nullptr) {
    const int first = empty ? 0 : rows.count;
    for (int row = first + threadIdx.x; row < splits.num_rows; row += S::kThreads) {
      splits.weights[splits.IndexOf(row)] = {-INFINITY, 0.0f};
    }
  }
  if (empty) return;

#pragma unroll
  for (int i = 0; i < S::kStages; ++i) {
    if (first_key(i) < end) {
      constexpr KeysCopied kCopied = kEarly ? KeysCopied::kRest : KeysCopied::kAll;
      CopyKeys<S, kCopied>(cached, first_key(i), end, entries[i], stages + i * S::kStageSize,
                           written);
    }
    if (i == 0) CopyQueries<S>(args, rows, queries);
    CommitCopies();
  }
  int32_t entry = entry_of(S::kStages);
  WarpKeys<T, S> state(rows, args.causal, end);
  WaitForCopies<S::kStages - 1>();
  __syncthreads();  // the queries have arrived
  T* stage = stages;
  for (int step = 0; first_key(step) < end; ++step) {
    WaitForCopies<S::kStages - 1>();
    __syncwarp();
    typename WarpKeys<T, S>::Scores scores = {};
    state.MultiplyKeys(queries, {stage}, scores);
    state.Adjust(args, rows, first_key(step), scores);
    state.Softmax(args.log2_factor, scores);
    state.AddValues({stage + S::kTileSize}, scores);
    __syncwarp();
    const int next = first_key(step + S::kStages);
    if (next < end) CopyKeys<S>(cached, next, end, entry, stage);
    CommitCopies();  // one group per turn, an empty one past the last tile
    entry = entry_of(step + S::kStages + 1);
    stage += S::kStageSize;
    if (stage == stages + S::kStages * S::kStageSize) stage = stages;
  }

  __syncthreads();  // the sums overwrite the stages
  float* const sums = reinterpret_cast<float*>(shared);
  state.Store(sums + warp * S::kRows * S::kSumStride, weights[warp]);
  __syncthreads();
  StoreRows<S>(args, splits, rows, sums, weights);
}

constexpr int kMergeWarps = 4;
constexpr int kMergedAtOnce = 16;  // splits whose sums a lane loads together

// One warp per row of a sequence; a lane per split, then per four elements.
// Grid: (key-value heads x num_rows / kMergeWarps, sequences). Bound by latency, or by memory: the
// sums are read once.
template <typename T, bool kFine>
__global__ void __launch_bounds__(kMergeWarps* kWarpSize)
    MergeGroupSplitsKernel(AttentionArgs<T> args, GroupSplits splits, Divisor group_size) {
  const int at = blockIdx.x * kMergeWarps + static_cast<int>(threadIdx.x) / kWarpSize;
  const int rows_of_sequence = args.num_kv_heads * splits.num_rows;
  const int64_t first_split = (int64_t{blockIdx.y} * rows_of_sequence + at) * splits.count;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = EarlySpanOf(args, splits.first_sequence + static_cast<int>(blockIdx.y));
  const int row = at % splits.num_rows;
  const BlockRows rows = RowsOfBlock(args, span, at / splits.num_rows, group_size, splits.num_rows);
  // The sums of splits past the context are never written.
  const int written = max(1, CeilDiv(span.context, splits.KeysOf<kFine>(span.context)));
  WaitForEarlierKernels();
  if (at >= rows_of_sequence || row >= rows.count) return;
  float2 weight = {-INFINITY, 0.0f};
  if (lane < splits.count) weight = splits.weights[first_split + lane];
  const float* const sums = splits.sums + first_split * args.head_dim;
  T* const output =
      args.output + rows.Token(row) * args.output_stride + rows.Head(row) * args.head_dim;
  for (int first = 0; first < args.head_dim; first += 4 * kWarpSize) {
    const int column = min(first + 4 * lane, args.head_dim - 4);
    // Loaded together with the weights, so that both wait for memory once.
    float parts[kMergedAtOnce][4];
#pragma unroll
    for (int s = 0; s < kMergedAtOnce; ++s) {
      if (s < written) LoadFloats(sums + s * args.head_dim + column, parts[s]);
    }
    const float maximum = WarpMax(weight.x);
    const float shift = maximum == -INFINITY ? 0.0f : maximum;
    const float share = exp2f(weight.x - shift);
    const float total = WarpSum(weight.y * share);
    const float scale = total == 0.0f ? 0.0f : 1.0f / total;
    const int used = kWarpSize - __clz(__ballot_sync(kFullMask, weight.x != -INFINITY));
    float sum[4] = {};
    const auto add = [&](int s, const float(&part)[4]) {
      const float share_of_split = __shfl_sync(kFullMask, share, s);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += part[j] * share_of_split;
    };
#pragma unroll
    for (int s = 0; s < kMergedAtOnce; ++s) {
      if (s < used) add(s, parts[s]);
    }
#pragma unroll 8
    for (int s = kMergedAtOnce; s < used; ++s) {
      float part[4];
      LoadFloats(sums + s * args.head_dim + column, part);
      add(s, part);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] *= scale;
    if (first + 4 * lane < args.head_dim) StoreFloats<4>(sum, output + column);
  }
}

template <typename T, typename S>
void Launch(Device& device, const AttentionArgs<T>& args, const GroupSplits& splits,
            int num_sequences) {
  const dim3 grid(static_cast<unsigned>(splits.count), static_cast<unsigned>(args.num_kv_heads),
                  static_cast<unsigned>(num_sequences));
  // With more blocks, blocks hide each other's latencies.
  const bool early =
      S::kTiles == 1 && int64_t{grid.x} * grid.y * grid.z <= device.num_multiprocessors();
  const auto kernel = [&] {
    if constexpr (S::kTiles == 1) {
      if (splits.fine) return GroupKernel<T, S, true, true>;
      if (early) return GroupKernel<T, S, true, false>;
    }
    return GroupKernel<T, S, false, false>;
  }();
  device.Check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes),
      "Attention (grouped): shared memory");
  LaunchOverlapped(device, "Attention (grouped)", kernel, grid, S::kThreads, S::kSharedBytes, args,
                   splits, Divisor(args.group_size));
}

// Many small blocks per multiprocessor: fewer blocks with more stages are slower.
template <typename T, int kTiles>
void LaunchWidth(Device& device, const AttentionArgs<T>& args, const GroupSplits& splits,
                 int num_sequences) {
  if (args.head_dim <= 64) {
    Launch<T, Shape<64, kTiles, 4>>(device, args, splits, num_sequences);
  } else if (args.head_dim <= 96) {
    Launch<T, Shape<96, kTiles, 4>>(device, args, splits, num_sequences);
  } else if (args.head_dim <= 128) {
    Launch<T, Shape<128, kTiles, 4>>(device, args, splits, num_sequences);
  } else {
    Launch<T, Shape<256, kTiles, 2>>(device, args, splits, num_sequences);
  }
}

}  // namespace

template <typename T>
void AttendGroups(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                  const AttentionChoice& choice) {
  BEAMLINE_CHECK(args.block_tables != nullptr && args.head_dim % 8 == 0 && args.head_dim <= 256);
  GroupSplits splits = {};
  splits.count = choice.num_splits;
  splits.fine = choice.keys_per_split == kFewestKeysPerFineSplit;
  splits.most = MostGroupSplits(args.num_kv_heads);
  splits.num_rows = params.max_query_length * args.group_size;
  BEAMLINE_CHECK(choice.rows_per_block == kFewGroupRows || choice.rows_per_block == kMoreGroupRows);
  BEAMLINE_CHECK(splits.num_rows <= choice.rows_per_block);
  BEAMLINE_CHECK(splits.count <= splits.most && splits.most <= kWarpSize);
  // Limits the sequences of a launch, so that it needs no more scratch memory than a device has
  // anyway.
  int most_sequences = params.num_sequences;
  if (splits.count > 1) {
    const int64_t entries = int64_t{args.num_kv_heads} * splits.num_rows * splits.count;
    const int64_t bytes = entries * (args.head_dim * sizeof(float) + sizeof(float2));
    const auto fitting = static_cast<int>(std::max<int64_t>(1, kFirstScratchBytes / bytes));
    const int num_launches = CeilDiv(params.num_sequences, fitting);
    most_sequences = CeilDiv(params.num_sequences, num_launches);
    splits.sums = device.TakeScratch<float>(most_sequences * bytes / sizeof(float));
    if (!device.ok()) return;
    splits.weights =
        reinterpret_cast<float2*>(splits.sums + most_sequences * entries * args.head_dim);
  }
  for (int first = 0; first < params.num_sequences; first += most_sequences) {
    const int num_sequences = std::min(most_sequences, params.num_sequences - first);
    splits.first_sequence = first;
    if (choice.rows_per_block == kFewGroupRows) {
      LaunchWidth<T, 1>(device, args, splits, num_sequences);
    } else {
      LaunchWidth<T, 2>(device, args, splits, num_sequences);
    }
    if (splits.count == 1) continue;
    const int rows = args.num_kv_heads * splits.num_rows;
    const dim3 grid(static_cast<unsigned>(CeilDiv(rows, kMergeWarps)),
                    static_cast<unsigned>(num_sequences));
    const auto merge =
        splits.fine ? MergeGroupSplitsKernel<T, true> : MergeGroupSplitsKernel<T, false>;
    LaunchOverlapped(device, "Attention (grouped)", merge, grid, kMergeWarps * kWarpSize,
                     /*shared_bytes=*/0, args, splits, Divisor(args.group_size));
  }
}

template void AttendGroups(Device&, const AttentionArgs<__half>&, const AttentionParams&,
                           const AttentionChoice&);
template void AttendGroups(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&,
                           const AttentionChoice&);

}  // namespace beamline::cuda
