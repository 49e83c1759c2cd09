// TopCandidates for few rows that are all plain, as in a step of one or a few requests. A cluster
// of blocks computes a row; its threads hold the logits in registers. The time depends on how often
// blocks wait for each other. They exchange the greatest value of each warp. Then they list the
// values that reach a threshold from these, in the first block's shared memory. The first warp of
// that block ranks the list.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/choice/candidate_args.cuh"
#include "kernels/cuda/choice/ordered_key.cuh"
#include "kernels/cuda/choice/plain_row.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"

namespace beamline::cuda {
namespace {

constexpr int kClusterArchitecture = 90;
constexpr int kBlocks = 8;  // per cluster
constexpr int kMostThreads = 1024;
constexpr int kWarpsOfChunk = kSumThreads / kWarpSize;
constexpr int kMostChunks = kBlocks * kMostThreads / kSumThreads;
constexpr int kLeastChunks = 5;  // each candidate of a row may be the greatest of a warp
constexpr int kMostListed = 256;
constexpr int kMostRows = 16;
constexpr int kMostBiases = 64;
static_assert((kLeastChunks - 1) * kWarpsOfChunk >= kMostPlainCandidates);

// The values that are sent with the launch.
struct FewRows {
  CandidateRow rows[kMostRows];
  LogitsEdits::Bias biases[kMostBiases];
};

// In shared memory of the cluster's first block.
struct RowLists {
  float2 sums[kMostChunks][kWarpsOfChunk];  // of each warp's exponentials
  int size;                                 // may exceed kMostListed, the number of stored entries
  uint64_t keys[kMostListed];
  float logits[kMostListed];                       // unedited
  int best[kMostPlainCandidates];                  // indices in the list
  uint64_t greatest[kMostChunks * kWarpsOfChunk];  // of each warp, below a bound
};

// A barrier of the cluster. After it, all threads see each other's writes to shared memory.
__device__ void Meet() {
  ClusterArrive();
  ClusterWait();
  __syncthreads();  // racecheck does not know the cluster's barriers
}

__device__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

// A thread's share of a row: every kSumThreads-th id of a chunk.
struct Share {
  int first;                     // id
  int size;                      // ids from there to the end of the vocabulary; may be below 1
  float values[kKeysPerThread];  // -infinity past the end

  __device__ int Id(int j) const { return first + j * kSumThreads; }
  __device__ bool Has(int j) const { return j * kSumThreads < size; }
};

__device__ void Load(const CandidateArgs& args, int row, int chunk, Share& share) {
  share.first = chunk * kChunk + static_cast<int>(threadIdx.x) % kSumThreads;
  share.size = args.vocab_size - share.first;
  const float* const logits = args.logits + row * args.logits_stride + share.first;
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    share.values[j] = share.Has(j) ? logits[j * kSumThreads] : -INFINITY;
  }
}

// Adds the biases, and updates `maximum` of the values.
__device__ void AddBiases(const Biases& biases, Share& share, float& maximum) {
#pragma unroll 1
  for (int b = 0; b < biases.count; ++b) {
    const LogitsEdits::Bias bias = biases.entries[b];
    const auto offset = static_cast<unsigned>(bias.id - share.first);
    if (offset >= kChunk || offset % kSumThreads != 0) continue;
    maximum = -INFINITY;
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) {
      share.values[j] += offset / kSumThreads == j && share.Has(j) ? bias.value : 0.0f;
      maximum = fmaxf(maximum, share.values[j]);
    }
  }
}

// Lists the values that reach the threshold. They are few, so they are read again: registers cannot
// be indexed at run time, and code that runs once takes longer to fetch than to run.
__device__ void ListReaching(const CandidateArgs& args, int row, const Biases& biases,
                             const Share& share, uint32_t threshold, RowLists& lists) {
  // NaN counts as -infinity, and a comparison with it is false.
  const bool all = threshold <= kLowest;
  const float least = all ? -INFINITY : FromOrderedKey(threshold);
  unsigned reach = 0;  // bit j: value j reaches the threshold
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    if (all ? share.Has(j) : share.values[j] >= least) reach |= 1u << j;
  }
#pragma unroll 1
  for (; reach != 0; reach &= reach - 1) {
    const int id = share.Id(__ffs(static_cast<int>(reach)) - 1);
    const int place = atomicAdd(OfBlock(lists.size, 0), 1);
    if (place >= kMostListed) continue;
    const float logit = args.logits[row * args.logits_stride + id];
    *OfBlock(lists.keys[place], 0) = CandidateKey(biases.Edited(id, logit), id);
    *OfBlock(lists.logits[place], 0) = logit;
  }
}

// Lists only the `count` best, one after the other. For rows with more equal values than a list
// holds. Called by every thread of the cluster. `first`: Share::first.
__device__ __noinline__ void ListByTurns(const CandidateArgs& args, int row, int count,
                                         Biases biases, int warp, int first, RowLists& lists) {
  const float* const logits = args.logits + row * args.logits_stride;
  const bool is_first_warp = blockIdx.x == 0 && threadIdx.x < kWarpSize;
  const int num_warps = kBlocks * static_cast<int>(blockDim.x) / kWarpSize;
  uint64_t below = ~uint64_t{0};
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    uint64_t greatest = 0;
#pragma unroll 1
    for (int j = 0; j < kKeysPerThread; ++j) {
      const int id = first + j * kSumThreads;
      if (id >= args.vocab_size) break;
      const uint64_t key = CandidateKey(biases.Edited(id, logits[id]), id);
      if (key < below && key > greatest) greatest = key;
    }
    greatest = WarpMax(greatest);
    if (Lane() == 0) *OfBlock(lists.greatest[warp], 0) = greatest;
    Meet();
    if (is_first_warp) {
      greatest = 0;
#pragma unroll 1
      for (int w = Lane(); w < num_warps; w += kWarpSize) {
        greatest = lists.greatest[w] > greatest ? lists.greatest[w] : greatest;
      }
      greatest = WarpMax(greatest);
      if (Lane() == 0) {
        lists.keys[i] = greatest;
        lists.logits[i] = logits[IdOf(greatest)];
        lists.size = count;
      }
    }
    Meet();
    below = ReadFromBlock(lists.keys[i], 0);
  }
}

// Ranks the list and writes the row's results. Called by the cluster's first warp.
__device__ void FinishRow(const CandidateArgs& args, const CandidateRow& row, int r,
                          const Biases& biases, RowLists& lists) {
  float2 normalizer = WarpNormalizer(args, r, [&](int chunk) {
    return CombineShares<1>([&](int w) { return lists.sums[chunk][w]; });
  });
  normalizer.x = __shfl_sync(kFullMask, normalizer.x, 0);
  normalizer.y = __shfl_sync(kFullMask, normalizer.y, 0);
  uint64_t key = 0;
  float logit = 0.0f;
  if (row.forced_id >= 0) {
    key = CandidateKey(0.0f, row.forced_id);
    logit = args.logits[r * args.logits_stride + row.forced_id];
  } else {
    const int size = lists.size;
#pragma unroll 1
    for (int i = Lane(); i < size; i += kWarpSize) {
      const uint64_t own = lists.keys[i];
      int rank = 0;
#pragma unroll 4
      for (int j = 0; j < size; ++j) rank += lists.keys[j] > own ? 1 : 0;
      if (rank < row.count) lists.best[rank] = i;
    }
    __syncwarp();
    const int place = Lane() < row.count ? lists.best[Lane()] : 0;
    key = lists.keys[place];
    logit = lists.logits[place];
  }
  WriteRow(args, row, r, biases, normalizer, key, logit);
}

// A thread's state at the start: its row, its warp, and its edited share of the row.
struct Own {
  const CandidateRow& row;
  Biases biases;
  int warp;
  int chunk;
  Share share;
  float2 sum;     // of its warp, before edits
  float maximum;  // of its share
};

__device__ __forceinline__ Own Begin(const CandidateArgs& args, const FewRows& few) {
  const CandidateRow& row = few.rows[blockIdx.y];
  const int warp = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / kWarpSize;
  Own own = {.row = row,
             .biases = {few.biases + row.first_bias, row.last_bias - row.first_bias},
             .warp = warp,
             .chunk = warp / kWarpsOfChunk};
  Load(args, blockIdx.y, own.chunk, own.share);
  own.sum = SumOf(own.share.values);
  own.maximum = own.sum.x;
  own.sum = WarpCombine(own.sum);
  AddBiases(own.biases, own.share, own.maximum);
  return own;
}

// Grid: (kBlocks, rows); kSumThreads threads per chunk of a block. Bound by latencies: of the
// logits, of three cluster barriers, of the last warp's sums, and of some hundred lines of code,
// which a step's weights have evicted from the caches.
__global__ void __launch_bounds__(kMostThreads)
    FewRowsKernel(const __grid_constant__ CandidateArgs args, const __grid_constant__ FewRows few) {
  __shared__ uint32_t maxima[kMostChunks * kWarpsOfChunk];  // OrderedKey
  __shared__ RowLists lists;
  if (threadIdx.x == 0) lists.size = 0;
  ClusterArriveRelaxed();  // no writes to a block that has not started
  WaitForEarlierKernels();
  const auto [row, biases, warp, chunk, share, sum, maximum] = Begin(args, few);
  const int r = blockIdx.y;
  const int num_warps = kBlocks * static_cast<int>(blockDim.x) / kWarpSize;
  const uint32_t greatest = __reduce_max_sync(kFullMask, share.Has(0) ? OrderedKey(maximum) : 0);
  ClusterWait();
  if (Lane() == 0) *OfBlock(lists.sums[chunk][warp % kWarpsOfChunk], 0) = sum;
  if (Lane() < kBlocks) *OfBlock(maxima[warp], Lane()) = greatest;
  Meet();

  if (row.forced_id < 0) {
    uint32_t of_group = 0;  // of warps; one group per lane
#pragma unroll 1
    for (int w = Lane(); w < num_warps; w += kWarpSize) of_group = max(of_group, maxima[w]);
    ListReaching(args, r, biases, share, ThresholdOf<4>(of_group, row.count), lists);
  }
  Meet();
  if (ReadFromBlock(lists.size, 0) > kMostListed) {
    ListByTurns(args, r, row.count, biases, warp, share.first, lists);
  }
  ClusterArriveRelaxed();  // the first block stays until all have read from it
  if (blockIdx.x == 0 && threadIdx.x < kWarpSize) FinishRow(args, row, r, biases, lists);
  ClusterWait();
}

// The best of a warp's edited values by CandidateKey; 0: none.
__device__ uint64_t BestOfWarp(const Share& share, float maximum) {
  const uint32_t greatest = __reduce_max_sync(kFullMask, share.Has(0) ? OrderedKey(maximum) : 0);
  uint32_t id = ~uint32_t{0};
#pragma unroll
  for (int j = kKeysPerThread - 1; j >= 0; --j) {
    if (share.Has(j) && OrderedKey(share.values[j]) == greatest) id = share.Id(j);
  }
  id = __reduce_min_sync(kFullMask, id);
  return uint64_t{greatest} << 32 | ~id;
}

// The same for rows that want only their best, as in a greedy step. Each warp sends its best to the
// first block. Bound by latencies: of the logits, of one barrier, of the last warp's sums, and of
// fewer lines of code.
__global__ void __launch_bounds__(kMostThreads)
    FewBestKernel(const __grid_constant__ CandidateArgs args, const __grid_constant__ FewRows few) {
  __shared__ float2 sums[kMostChunks][kWarpsOfChunk];
  __shared__ uint64_t best[kMostChunks * kWarpsOfChunk];
  ClusterArriveRelaxed();  // no writes to a block that has not started
  WaitForEarlierKernels();
  const auto [row, biases, warp, chunk, share, sum, maximum] = Begin(args, few);
  const int r = blockIdx.y;
  const uint64_t of_warp = BestOfWarp(share, maximum);
  ClusterWait();
  if (Lane() == 0) {
    *OfBlock(sums[chunk][warp % kWarpsOfChunk], 0) = sum;
    *OfBlock(best[warp], 0) = of_warp;
  }
  Meet();
  if (blockIdx.x != 0 || threadIdx.x >= kWarpSize) return;
  const int num_warps = kBlocks * static_cast<int>(blockDim.x) / kWarpSize;
  uint64_t key = 0;
#pragma unroll 1
  for (int w = Lane(); w < num_warps; w += kWarpSize) key = best[w] > key ? best[w] : key;
  key = row.forced_id >= 0 ? CandidateKey(0.0f, row.forced_id) : WarpMax(key);
  const float logit = args.logits[r * args.logits_stride + IdOf(key)];
  float2 normalizer = WarpNormalizer(
      args, r, [&](int c) { return CombineShares<1>([&](int w) { return sums[c][w]; }); });
  normalizer.x = __shfl_sync(kFullMask, normalizer.x, 0);
  normalizer.y = __shfl_sync(kFullMask, normalizer.y, 0);
  WriteRow(args, row, r, biases, normalizer, key, logit);
}

}  // namespace

bool SelectFewCandidates(Device& device, const CandidateArgs& args, const FlatEdits& edits) {
  if (device.code_architecture() < kClusterArchitecture || edits.any_other ||
      args.num_rows > kMostRows || args.num_chunks < kLeastChunks ||
      args.num_chunks > kMostChunks || edits.biases.size() > kMostBiases) {
    return false;
  }
  FewRows few;
  std::ranges::copy(edits.rows, few.rows);
  std::ranges::copy(edits.biases, few.biases);
  const int chunks_of_block = CeilDiv(args.num_chunks, kBlocks);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = kBlocks;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kBlocks, static_cast<unsigned>(args.num_rows));
  config.blockDim = dim3(static_cast<unsigned>(chunks_of_block * kSumThreads));
  config.stream = device.stream();
  config.attrs = attributes;
  config.numAttrs = 2;
  const bool bests =
      std::ranges::all_of(edits.rows, [](const CandidateRow& row) { return row.count == 1; });
  device.Check(cudaLaunchKernelEx(&config, bests ? FewBestKernel : FewRowsKernel, args, few),
               "TopCandidates (few)");
  return true;
}

}  // namespace beamline::cuda
