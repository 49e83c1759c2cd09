// Beam search operators that run between two steps, so that no step waits for the host to read the
// surviving beams.
#include <algorithm>
#include <vector>

#include "kernels/beam_order.h"
#include "kernels/beam_tails.h"
#include "kernels/cuda/choice/choice_ops.h"
#include "kernels/cuda/choice/few_beams.h"
#include "kernels/cuda/choice/ordered_key.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/launch_values.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kReorderThreads = 128;
constexpr int kTileColumns = 32;
constexpr int kCopyThreads = 128;
constexpr int kLayersPerLaunch = 32;

// A BeamSearch whose host arrays are sent with the launch, concatenated with those of the other
// searches. first_score, first_end and last_end are indices in the concatenated arrays.
struct SearchArgs {
  int32_t first_row, num_rows, width;
  int32_t first_beam;
  int32_t first_score;  // in host_scores; below 0: word -1 - first_score of `words`
  int32_t first_end, last_end;
  int32_t renormalize;
};

struct AdvanceArgs {
  LaunchValues values_of_host;  // at these offsets:
  int searches;                 // [num_searches]
  int host_scores;
  int end_ids;
  int counts;  // [num_rows]
  const float* words;
  const float* normalizers;  // [num_rows]; for searches that renormalize
  const float* values;
  const int32_t* ids;
  int max_count;
  int32_t* parents;
  int32_t* tokens;
  float* scores;
};

struct Head {
  float score;
  int row;
};

// The best of the warp's heads. Every lane gets it.
__device__ inline Head WarpBest(Head head) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const Head other = {__shfl_xor_sync(kFullMask, head.score, offset),
                        __shfl_xor_sync(kFullMask, head.row, offset)};
    if (GoesBefore(other.score, other.row, head.score, head.row)) head = other;
  }
  return head;
}

// Grid: searches, one warp each. It merges the rows' sorted lists. Bound by its launch: a search
// looks at some tens of candidates.
__global__ void AdvanceBeamsKernel(const __grid_constant__ AdvanceArgs args) {
  extern __shared__ int heads[];  // per row: the best candidate not taken
  WaitForEarlierKernels();
  const LaunchValues& host = args.values_of_host;
  const auto search = host.Get<SearchArgs>(args.searches, blockIdx.x);
  const int lane = threadIdx.x;
  const auto score_of = [&](int row) {
    return search.first_score >= 0 ? host.Get<float>(args.host_scores, search.first_score + row)
                                   : args.words[-1 - search.first_score + row];
  };
  const auto candidate = [&](int row) {
    return static_cast<int64_t>(search.first_row + row) * args.max_count + heads[row];
  };
  for (int row = lane; row < search.num_rows; row += kWarpSize) heads[row] = 0;
  __syncwarp();
  int beam = 0;
  while (beam < search.width) {
    Head best = {-INFINITY, search.num_rows};
    for (int row = lane; row < search.num_rows; row += kWarpSize) {
      if (heads[row] >= host.Get<int32_t>(args.counts, search.first_row + row)) continue;
      float value = args.values[candidate(row)];
      if (search.renormalize != 0) {
        value = __fsub_rn(value, args.normalizers[search.first_row + row]);
      }
      const float score = BeamScore(value, score_of(row));
      if (MayFollow(score) && GoesBefore(score, row, best.score, best.row)) best = {score, row};
    }
    best = WarpBest(best);
    if (best.row == search.num_rows) break;
    const int32_t token = args.ids[candidate(best.row)];
    __syncwarp();
    if (lane == 0) ++heads[best.row];
    __syncwarp();
    bool ends = false;
    for (int i = search.first_end + lane; i < search.last_end; i += kWarpSize) {
      ends = ends || host.Get<int32_t>(args.end_ids, i) == token;
    }
    if (__any_sync(kFullMask, ends)) continue;
    if (lane == 0) {
      args.parents[search.first_beam + beam] = best.row;
      args.tokens[search.first_beam + beam] = token;
      args.scores[search.first_beam + beam] = best.score;
    }
    ++beam;
  }
  for (beam += lane; beam < search.width; beam += kWarpSize) {
    args.parents[search.first_beam + beam] = min(beam, search.num_rows - 1);
    args.tokens[search.first_beam + beam] = 0;
    args.scores[search.first_beam + beam] = -INFINITY;
  }
}

// The same if no search has more candidates than a warp has lanes. Each lane ranks its own.
// Grid: searches, one warp each. Bound by its launch.
__global__ void AdvanceFewBeamsKernel(const __grid_constant__ AdvanceArgs args) {
  const LaunchValues& host = args.values_of_host;
  const auto search = host.Get<SearchArgs>(args.searches, blockIdx.x);
  const int lane = threadIdx.x;
  const int row = lane / args.max_count;
  const int first_lane = row * args.max_count;  // of the row
  bool follows = false;
  float row_score = 0.0f;
  if (row < search.num_rows) {
    follows = lane - first_lane < host.Get<int32_t>(args.counts, search.first_row + row);
    // An earlier step wrote the words.
    row_score = search.first_score >= 0
                    ? host.Get<float>(args.host_scores, search.first_score + row)
                    : __int_as_float(LoadEarly(reinterpret_cast<const int32_t*>(args.words) - 1 -
                                               search.first_score + row));
  }
  WaitForEarlierKernels();
  float score = -INFINITY;
  int32_t token = 0;
  if (follows) {
    const int64_t at = static_cast<int64_t>(search.first_row) * args.max_count + lane;
    float value = args.values[at];
    token = args.ids[at];
    if (search.renormalize != 0) {
      value = __fsub_rn(value, args.normalizers[search.first_row + row]);
    }
    score = BeamScore(value, row_score);
  }
  // A candidate that may not follow ends its row's list.
  const unsigned ends = __ballot_sync(kFullMask, !MayFollow(score));
  const unsigned earlier = ((1u << lane) - 1u) & ~((1u << first_lane) - 1u);
  follows = follows && MayFollow(score) && (ends & earlier) == 0;
#pragma unroll 1
  for (int i = search.first_end; i < search.last_end; ++i) {
    follows = follows && host.Get<int32_t>(args.end_ids, i) != token;
  }
  const uint32_t key = follows ? OrderedKey(score) : 0;  // less than any that follows
  int beam = 0;
#pragma unroll 8
  for (int i = 0; i < kWarpSize; ++i) {
    const uint32_t other = __shfl_sync(kFullMask, key, i);
    beam += other > key || (other == key && i < lane) ? 1 : 0;
  }
  const int num_found = __popc(__ballot_sync(kFullMask, follows));
  if (follows && beam < search.width) {
    args.parents[search.first_beam + beam] = row;
    args.tokens[search.first_beam + beam] = token;
    args.scores[search.first_beam + beam] = score;
  }
#pragma unroll 1
  for (beam = num_found + lane; beam < search.width; beam += kWarpSize) {
    args.parents[search.first_beam + beam] = min(beam, search.num_rows - 1);
    args.tokens[search.first_beam + beam] = 0;
    args.scores[search.first_beam + beam] = -INFINITY;
  }
}

// Copies the first num_filled positions of block `source` to block `target`, in every layer. Copies
// nothing if `source` is negative.
struct TailCopy {
  int32_t source, target, num_filled;
};

struct ReorderArgs {
  LaunchValues values_of_host;  // at these offsets:
  int groups;                   // BeamTables
  int first_copies;             // per group, in `copies`
  const int32_t* words;
  int32_t* block_tables;
  int max_blocks;
  int32_t* slots;
  int block_size;
  TailCopy* copies;
};

// Grid: groups. Bound by its launch.
__global__ void ReorderKernel(const __grid_constant__ ReorderArgs args) {
  extern __shared__ int shared[];
  WaitForEarlierKernels();
  const LaunchValues& host = args.values_of_host;
  const auto group = host.Get<BeamTables>(args.groups, blockIdx.x);
  const auto first_copy = host.Get<int32_t>(args.first_copies, blockIdx.x);
  const int n = group.num_rows;
  int* const parents = shared;
  int* const tails = shared + n;
  int* const tile = shared + 2 * n;  // [n, kTileColumns]
  int32_t* const tables =
      args.block_tables + static_cast<int64_t>(group.first_row) * args.max_blocks;
  const auto entry = [&](int row, int column) -> int32_t& {
    return tables[static_cast<int64_t>(row) * args.max_blocks + column];
  };
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    parents[row] = args.words[group.parent_word + row];
    tails[row] = entry(row, group.column);
  }
  __syncthreads();
  for (int row = threadIdx.x; row < n; row += blockDim.x) {
    TailCopy copy = {-1, 0, 0};
    if (group.num_filled > 0) {
      // Every thread walks up to its own row, as n is small.
      BeamTailWalk walk(parents, n);
      BeamTail tail = walk.Next();
      for (int earlier = 0; earlier < row; ++earlier) tail = walk.Next();
      const int32_t block = tails[tail.blocks_of];
      entry(row, group.column) = block;
      args.slots[group.first_token + row] = block * args.block_size + group.num_filled;
      if (tail.copied) copy = {tails[parents[row]], block, group.num_filled};
    }
    args.copies[first_copy + row] = copy;
  }
  for (int first = 0; first < group.column; first += kTileColumns) {
    const int width = min(kTileColumns, group.column - first);
    __syncthreads();
    for (int i = threadIdx.x; i < n * width; i += blockDim.x) {
      tile[i] = entry(i / width, first + i % width);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n * width; i += blockDim.x) {
      entry(i / width, first + i % width) = tile[parents[i / width] * width + i % width];
    }
  }
}

struct CopyTailsArgs {
  const TailCopy* copies;
  char* caches[2 * kLayersPerLaunch];  // keys and values of each layer
  int num_heads;
  int64_t head_bytes;      // of a block
  int64_t position_bytes;  // of a head
};

// Grid: (rows of all groups, keys and values of the layers). Bound by memory, if there is anything
// to copy.
template <typename Unit>
__global__ void __launch_bounds__(kCopyThreads) CopyTailsKernel(CopyTailsArgs args) {
  WaitForEarlierKernels();
  const TailCopy copy = args.copies[blockIdx.x];
  if (copy.source < 0) return;
  char* const cache = args.caches[blockIdx.y];
  const auto units = static_cast<int>(copy.num_filled * args.position_bytes / sizeof(Unit));
  for (int i = threadIdx.x; i < args.num_heads * units; i += kCopyThreads) {
    const int64_t head = i / units;
    const auto* source = reinterpret_cast<const Unit*>(
        cache + (copy.source * static_cast<int64_t>(args.num_heads) + head) * args.head_bytes);
    auto* target = reinterpret_cast<Unit*>(
        cache + (copy.target * static_cast<int64_t>(args.num_heads) + head) * args.head_bytes);
    target[i % units] = source[i % units];
  }
}

void CopyTails(Device& device, std::span<const KvLayer> layers, const TailCopy* copies,
               unsigned num_rows) {
  const Tensor& keys = layers[0].keys;
  const auto element_bytes = static_cast<int64_t>(SizeOf(keys.dtype));
  CopyTailsArgs args = {};
  args.copies = copies;
  args.num_heads = static_cast<int>(keys.dim(1));
  args.head_bytes = keys.dim(2) * keys.dim(3) * element_bytes;
  args.position_bytes = keys.dim(3) * element_bytes;
  while (!layers.empty()) {
    const auto part = layers.first(std::min<size_t>(layers.size(), kLayersPerLaunch));
    layers = layers.subspan(part.size());
    for (size_t i = 0; i < part.size(); ++i) {
      args.caches[2 * i] = part[i].keys.as<char>();
      args.caches[2 * i + 1] = part[i].values.as<char>();
    }
    const dim3 grid(num_rows, static_cast<unsigned>(2 * part.size()));
    const auto kernel =
        args.position_bytes % 16 == 0 ? CopyTailsKernel<uint4> : CopyTailsKernel<uint16_t>;
    LaunchOverlapped(device, "ReorderBeams", kernel, grid, kCopyThreads, /*shared_bytes=*/0, args);
  }
}

}  // namespace

void Compute(Device& device, const AdvanceBeamsParams& params) {
  if (params.searches.empty()) return;
  std::vector<SearchArgs> searches;
  std::vector<float> scores;
  std::vector<int32_t> end_ids;
  int32_t num_beams = 0;
  int most_rows = 0;
  for (const BeamSearch& search : params.searches) {
    const int32_t first_score =
        search.scores.empty() ? -1 - search.score_word : static_cast<int32_t>(scores.size());
    scores.insert(scores.end(), search.scores.begin(), search.scores.end());
    const auto first_end = static_cast<int32_t>(end_ids.size());
    end_ids.insert(end_ids.end(), search.end_ids.begin(), search.end_ids.end());
    searches.push_back({search.first_row, search.num_rows, search.width, num_beams, first_score,
                        first_end, static_cast<int32_t>(end_ids.size()),
                        search.renormalize ? 1 : 0});
    num_beams += search.width;
    most_rows = std::max(most_rows, search.num_rows);
  }
  AdvanceArgs args = {};
  LaunchValuesBuilder values;
  args.searches = values.Add(std::span(searches));
  args.host_scores = values.Add(std::span(scores));
  args.end_ids = values.Add(std::span(end_ids));
  args.counts = values.Add(params.counts);
  values.Send(device, args.values_of_host);
  if (!device.ok()) return;

  args.words = params.words;
  args.normalizers = params.normalizers;
  args.values = params.values;
  args.ids = params.ids;
  args.max_count = params.max_count;
  args.parents = params.parents;
  args.tokens = params.tokens;
  args.scores = params.scores;
  const bool few = most_rows * int64_t{params.max_count} <= kWarpSize;
  LaunchOverlapped(device, "AdvanceBeams", few ? AdvanceFewBeamsKernel : AdvanceBeamsKernel,
                   std::ssize(searches), kWarpSize, few ? 0 : most_rows * int64_t{sizeof(int)},
                   args);
}

void Compute(Device& device, const ReorderBeamsParams& params) {
  if (params.groups.empty() || ReorderFewBeams(device, params)) return;
  Compute(device, FillTokensParams{params.words, params.fills, params.token_ids});
  std::vector<int32_t> first_copies;
  int32_t num_rows = 0;
  int most_rows = 0;
  bool any_filled = false;
  for (const BeamTables& group : params.groups) {
    first_copies.push_back(num_rows);
    num_rows += group.num_rows;
    most_rows = std::max(most_rows, group.num_rows);
    any_filled = any_filled || group.num_filled > 0;
  }
  ReorderArgs args = {};
  LaunchValuesBuilder values;
  args.groups = values.Add(params.groups);
  args.first_copies = values.Add(std::span(first_copies));
  values.Send(device, args.values_of_host);
  args.copies = device.TakeScratch<TailCopy>(num_rows);
  if (!device.ok()) return;
  args.words = params.words;
  args.block_tables = params.block_tables;
  args.max_blocks = params.max_blocks;
  args.slots = params.slots;
  args.block_size = static_cast<int>(params.layers[0].keys.dim(2));
  LaunchOverlapped(device, "ReorderBeams", ReorderKernel, std::ssize(params.groups),
                   kReorderThreads, most_rows * int64_t{(2 + kTileColumns) * sizeof(int)}, args);
  if (any_filled && device.ok()) {
    CopyTails(device, params.layers, args.copies, static_cast<unsigned>(num_rows));
  }
}

}  // namespace beamline::cuda
