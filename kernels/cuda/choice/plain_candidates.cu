// TopCandidates for rows with few candidates and few edits or none, as in beam search or a greedy
// step, and for rows with one forced candidate, as in scoring. One block computes a row, so that
// its chunks meet in shared memory. One warp finds the greatest value of a chunk of the vocabulary
// and the sum of its exponentials. It holds the logits in registers and needs no block barriers.
// The threshold is the count-th greatest of the chunks' greatest values. The values that reach it
// are usually a short list, which the first warp sorts. Otherwise the first warp merges the best of
// each chunk.
#include "base/math.h"
#include "kernels/cuda/choice/candidate_args.cuh"
#include "kernels/cuda/choice/ordered_key.cuh"
#include "kernels/cuda/choice/plain_row.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace {

constexpr int kShares = kSumThreads / kWarpSize;  // sums of a lane, one per thread that it replaces
constexpr int kMostListed = 128;
constexpr int64_t kMostSharedBytes = 16 << 10;  // for the results of chunks
static_assert(kMostPlainCandidates <= kWarpSize);

// A warp's or the block's list, in shared memory: the keys that reach a threshold, then the best of
// them.
struct List {
  int size;
  uint64_t keys[kMostListed];
  uint64_t best[kMostPlainCandidates];
};

__device__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

// A chunk of the vocabulary as a warp reads it. A lane's i-th id is first + i * kWarpSize.
struct Chunk {
  const float* logits;  // of the row
  int first, end;       // this lane's first id, and the vocabulary's end

  __device__ int Id(int i) const { return first + i * kWarpSize; }
  __device__ bool Has(int i) const { return Id(i) < end; }
};
constexpr int kValuesEach = kChunk / kWarpSize;

using Values = float[kShares][kKeysPerThread];  // element j of share w: id first + (8 j + w) * 32

__device__ void LoadValues(const Chunk& chunk, Values& values) {
  if (chunk.Id(kValuesEach) - Lane() <= chunk.end) {
    const float* const from = chunk.logits + chunk.first;
#pragma unroll
    for (int i = 0; i < kValuesEach; ++i) {
      values[i % kShares][i / kShares] = from[i * kWarpSize];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kValuesEach; ++i) {
    values[i % kShares][i / kShares] = chunk.Has(i) ? chunk.logits[chunk.Id(i)] : -INFINITY;
  }
}

// Adds the biases of the chunk at `begin` to this lane's values. Returns whether the chunk has any.
__device__ bool AddBiases(const Biases& biases, const Chunk& chunk, int begin, Values& values) {
  bool any = false;
#pragma unroll 1
  for (int b = 0; b < biases.count; ++b) {
    const LogitsEdits::Bias bias = biases.entries[b];
    if (bias.id < begin || bias.id >= min(begin + kChunk, chunk.end)) continue;
    any = true;
    const int own = (bias.id - begin) % kWarpSize == Lane() ? (bias.id - begin) / kWarpSize : -1;
#pragma unroll
    for (int w = 0; w < kShares; ++w) {
#pragma unroll
      for (int j = 0; j < kKeysPerThread; ++j) {
        if (own == j * kShares + w) values[w][j] += bias.value;
      }
    }
  }
  return any;
}

// Adds shares across lanes. After that a lane holds half as many: the upper lanes hold the upper
// ones.
template <int kCount>
__device__ void HalveShares(float (&sums)[kShares], int offset) {
  const bool upper = (Lane() & offset) != 0;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const float sent = upper ? sums[k] : sums[k + kCount];
    const float kept = upper ? sums[k + kCount] : sums[k];
    sums[k] = kept + __shfl_xor_sync(kFullMask, sent, offset);
  }
}

// The sum of a chunk, by the same additions in the same order as in a block of kSumThreads:
// WarpCombine of each share, for all shares at once.
__device__ float2 SumShares(const float2 (&shares)[kShares]) {
  static_assert(kShares == 8);
  float maxima[kShares], sums[kShares];
#pragma unroll
  for (int w = 0; w < kShares; ++w) {
    maxima[w] = WarpMaximum(shares[w].x);
    sums[w] = SumBelow(shares[w], maxima[w]);
  }
  HalveShares<4>(sums, 16);
  HalveShares<2>(sums, 8);
  HalveShares<1>(sums, 4);
  float own = sums[0];
  own += __shfl_xor_sync(kFullMask, own, 2);
  own += __shfl_xor_sync(kFullMask, own, 1);
  // Share w is in lanes 4 w .. 4 w + 3.
  constexpr int kLanes = kWarpSize / kShares;
  return CombineShares<kShares>([&](int w) -> float2 {
    return {maxima[w], __shfl_sync(kFullMask, own, w * kLanes)};
  });
}

__device__ void Append(uint64_t key, List& list) {
  const int place = atomicAdd(&list.size, 1);
  if (place < kMostListed) list.keys[place] = key;
}

// Calls store(i, key) for the `count` best listed keys, with key 0 if there are fewer. If more keys
// reached the threshold than a list holds (many equal values), finds them one after the other:
// next(key) returns this lane's best below a key.
template <typename Next, typename Store>
__device__ void StoreBest(const List& list, int count, const Next& next, const Store& store) {
  const int size = list.size;
  if (size <= kMostListed) {
    for (int i = Lane(); i < size; i += kWarpSize) {
      const uint64_t key = list.keys[i];
      int rank = 0;
      for (int j = 0; j < size; ++j) rank += list.keys[j] > key ? 1 : 0;
      if (rank < count) store(rank, key);
    }
    for (int i = size + Lane(); i < count; i += kWarpSize) store(i, uint64_t{0});
    return;
  }
  uint64_t key = ~uint64_t{0};
  for (int i = 0; i < count; ++i) {
    key = WarpMax(next(key));
    if (Lane() == 0) store(i, key);
  }
}

__device__ void StartList(List& list) {
  __syncwarp();
  if (Lane() == 0) list.size = 0;
  __syncwarp();
}

// Writes the chunk's `count` best to `best`, descending. `values` are edited. `maximum` is the
// greatest of this lane's.
__device__ void SelectChunk(const Chunk& chunk, const Biases& biases, const Values& values,
                            float maximum, int count, List& list, uint64_t* best) {
  const uint32_t threshold = ThresholdOf<kWarpSize>(chunk.Has(0) ? OrderedKey(maximum) : 0, count);
  // NaN counts as -infinity, and a comparison with it is false.
  const bool all = threshold <= kLowest;
  const float least = all ? -INFINITY : FromOrderedKey(threshold);
  uint64_t reach = 0;  // bit i: value i reaches the threshold
#pragma unroll
  for (int w = 0; w < kShares; ++w) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) {
      const int i = j * kShares + w;
      if (all ? chunk.Has(i) : values[w][j] >= least) reach |= uint64_t{1} << i;
    }
  }
  // These are few, so they are read again: registers cannot be indexed at run time.
  const auto key_of = [&](int i) {
    return CandidateKey(biases.Edited(chunk.Id(i), chunk.logits[chunk.Id(i)]), chunk.Id(i));
  };
  StartList(list);
  for (; reach != 0; reach &= reach - 1) {
    Append(key_of(__ffsll(static_cast<long long>(reach)) - 1), list);
  }
  __syncwarp();
  const auto next = [&](uint64_t below) {
    uint64_t greatest = 0;
    for (int i = 0; i < kValuesEach && chunk.Has(i); ++i) {
      const uint64_t key = key_of(i);
      if (key < below && key > greatest) greatest = key;
    }
    return greatest;
  };
  StoreBest(list, count, next, [&](int i, uint64_t key) { best[i] = key; });
}

// The results of a row's chunks.
struct FoundOfRow {
  float2* sums;    // [num_chunks]
  uint64_t* best;  // [num_chunks, count]

  // [num_chunks], in the same memory: OrderedKey of each chunk's greatest edited value.
  __device__ uint32_t* greatest() const { return reinterpret_cast<uint32_t*>(best); }
};

// Merges the best of a row's chunks, `total` keys, into list.best.
__device__ void MergeChunks(const uint64_t* keys, int total, int count, List& list) {
  const auto greatest_below = [&](uint64_t below) {
    uint64_t greatest = 0;
#pragma unroll 4
    for (int i = Lane(); i < total; i += kWarpSize) {
      const uint64_t key = keys[i];
      if (key < below && key > greatest) greatest = key;
    }
    return greatest;
  };
  const uint64_t greatest = greatest_below(~uint64_t{0});
  const uint32_t threshold = ThresholdOf<kWarpSize>(static_cast<uint32_t>(greatest >> 32), count);
  StartList(list);
#pragma unroll 4
  for (int i = Lane(); i < total; i += kWarpSize) {
    const uint64_t key = keys[i];
    if (key != 0 && static_cast<uint32_t>(key >> 32) >= threshold) Append(key, list);
  }
  __syncwarp();
  StoreBest(list, count, greatest_below, [&](int i, uint64_t key) { list.best[i] = key; });
  __syncwarp();
}

// Computes a row's results from those of its chunks. Called by one warp. `listed`: the list has the
// row's best and more.
__device__ void FinishPlainRow(const CandidateArgs& args, const CandidateRow& row, int r,
                               const Biases& biases, const FoundOfRow& found, bool listed,
                               List& list) {
  float2 normalizer = WarpNormalizer(args, r, [&](int chunk) { return found.sums[chunk]; });
  normalizer.x = __shfl_sync(kFullMask, normalizer.x, 0);
  normalizer.y = __shfl_sync(kFullMask, normalizer.y, 0);
  const bool forced = row.forced_id >= 0;
  if (listed) {
    StoreBest(
        list, row.count, /*next=*/[](uint64_t) { return uint64_t{0}; },
        [&](int i, uint64_t key) { list.best[i] = key; });
    __syncwarp();
  } else if (!forced) {
    MergeChunks(found.best, args.num_chunks * row.count, row.count, list);
  }
  const bool exists = Lane() < row.count;
  uint64_t key = exists && !forced ? list.best[Lane()] : 0;
  if (forced) key = CandidateKey(0.0f, row.forced_id);
  const float logit = exists ? args.logits[r * args.logits_stride + IdOf(key)] : 0.0f;
  WriteRow(args, row, r, biases, normalizer, key, logit);
}

__device__ float GreatestOf(const Values& values) {
  float greatest = -INFINITY;
#pragma unroll
  for (int w = 0; w < kShares; ++w) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) greatest = fmaxf(greatest, values[w][j]);
  }
  return greatest;
}

// Finds the sum of a chunk, and its greatest value (with `by_list`) or its best. Called by one
// warp.
__device__ void ComputeChunk(const CandidateArgs& args, const CandidateRow& row, int r, int index,
                             const Biases& biases, const FoundOfRow& found, bool by_list,
                             List& list) {
  const int begin = index * kChunk;
  const Chunk chunk = {args.logits + r * args.logits_stride, begin + Lane(), args.vocab_size};
  Values values;
  LoadValues(chunk, values);
  float2 sums[kShares];
  float maximum = -INFINITY;
#pragma unroll
  for (int w = 0; w < kShares; ++w) {
    sums[w] = SumOf(values[w]);
    maximum = fmaxf(maximum, sums[w].x);
  }
  const float2 sum = SumShares(sums);
  if (Lane() == 0) found.sums[index] = sum;
  if (row.forced_id >= 0) return;
  if (AddBiases(biases, chunk, begin, values)) maximum = GreatestOf(values);
  if (by_list) {
    const uint32_t greatest = OrderedKey(WarpMaximum(maximum));
    if (Lane() == 0) found.greatest()[index] = greatest;
  } else {
    SelectChunk(chunk, biases, values, maximum, row.count, list, found.best + index * row.count);
  }
}

// Lists the values of a chunk that reach the threshold. Called by one warp.
__device__ void ListChunk(const CandidateArgs& args, int r, int index, const Biases& biases,
                          uint32_t threshold, List& list) {
  const int begin = index * kChunk;
  const Chunk chunk = {args.logits + r * args.logits_stride, begin + Lane(), args.vocab_size};
  Values values;
  LoadValues(chunk, values);
  AddBiases(biases, chunk, begin, values);
  const float least = FromOrderedKey(threshold);
  uint64_t reach = 0;  // bit i: value i reaches the threshold
#pragma unroll
  for (int w = 0; w < kShares; ++w) {
#pragma unroll
    for (int j = 0; j < kKeysPerThread; ++j) {
      if (values[w][j] >= least) reach |= uint64_t{1} << (j * kShares + w);
    }
  }
  // As in SelectChunk.
  for (; reach != 0; reach &= reach - 1) {
    const int id = chunk.Id(__ffsll(static_cast<long long>(reach)) - 1);
    Append(CandidateKey(biases.Edited(id, chunk.logits[id]), id), list);
  }
}

// Lists the values that reach the count-th greatest of the chunks' greatest values. At least
// `count` values do. Called by the whole block, between barriers. False if there is no such value.
template <int kWarps>
__device__ bool ListRow(const CandidateArgs& args, int r, int count, const Biases& biases,
                        const FoundOfRow& found, List& list) {
  const uint32_t* const greatest = found.greatest();
  uint32_t own = 0;
  for (int i = Lane(); i < args.num_chunks; i += kWarpSize) own = max(own, greatest[i]);
  const uint32_t threshold = ThresholdOf<kWarpSize>(own, count);
  if (threshold <= kLowest) return false;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < args.num_chunks; i += kWarps) {
    if (greatest[i] >= threshold) ListChunk(args, r, i, biases, threshold, list);
  }
  return true;
}

// Grid: one block per row. Shared memory: the results of its chunks, if they are at most
// kMostSharedBytes. Bound by memory: the logits are read once.
template <int kWarps, int kBlocksEach>
__global__ void __launch_bounds__(kWarps* kWarpSize, kBlocksEach)
    PlainKernel(const __grid_constant__ CandidateArgs args,
                const __grid_constant__ CommonRow common, bool in_shared) {
  extern __shared__ __align__(16) char shared[];
  __shared__ List lists[kWarps];
  WaitForEarlierKernels();
  const int r = blockIdx.x;
  const CandidateRow& row = args.rows != nullptr ? args.rows[r] : common.row;
  if (!row.plain) return;
  const int64_t first_chunk = static_cast<int64_t>(r) * args.num_chunks;
  FoundOfRow found = {args.sums + first_chunk, args.candidates + first_chunk * args.max_count};
  if (in_shared) {
    found.sums = reinterpret_cast<float2*>(shared);
    found.best = reinterpret_cast<uint64_t*>(found.sums + args.num_chunks);
  }
  const LogitsEdits::Bias* const all_biases = args.rows != nullptr ? args.biases : common.biases;
  const Biases biases = {all_biases + row.first_bias, row.last_bias - row.first_bias};
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const bool forced = row.forced_id >= 0;
  bool by_list = !forced && args.num_chunks >= row.count, listed = false;
  if (threadIdx.x == 0) lists[0].size = 0;
  while (true) {
#pragma unroll 1
    for (int index = warp; index < args.num_chunks; index += kWarps) {
      ComputeChunk(args, row, r, index, biases, found, by_list, lists[warp]);
    }
    __syncthreads();
    if (!by_list) break;
    listed = ListRow<kWarps>(args, r, row.count, biases, found, lists[0]);
    __syncthreads();
    listed = listed && lists[0].size <= kMostListed;
    if (listed) break;
    // Too many equal values, or too few values.
    __syncthreads();
    by_list = false;
  }
  if (warp == 0) FinishPlainRow(args, row, r, biases, found, listed, lists[0]);
}

template <int kWarps, int kBlocksEach>
void Launch(Device& device, const CandidateArgs& args, const CommonRow& common) {
  const int64_t found_bytes =
      args.num_chunks * (int64_t{sizeof(float2)} + int64_t{sizeof(uint64_t)} * args.max_count);
  const bool in_shared = found_bytes <= kMostSharedBytes;
  LaunchOverlapped(device, "TopCandidates (plain)", PlainKernel<kWarps, kBlocksEach>, args.num_rows,
                   kWarps * kWarpSize, in_shared ? found_bytes : 0, args, common, in_shared);
}

}  // namespace

void SelectPlainCandidates(Device& device, const CandidateArgs& args, const CommonRow& common) {
  constexpr int kFewChunks = 4;
  if (args.num_chunks <= kFewChunks) {
    Launch<kFewChunks, 4>(device, args, common);
  } else if (args.num_rows <= device.num_multiprocessors()) {
    Launch<16, 1>(device, args, common);
  } else {
    Launch<8, 2>(device, args, common);
  }
}

}  // namespace beamline::cuda
