// TopCandidates: log-softmax, edits and the best tokens of each row, in one launch and one pass
// over the logits. The vocabulary is divided into chunks, so that one row keeps many
// multiprocessors busy. A block finds the sum of its chunk's exponentials together with the chunk's
// best. A row's last block to finish merges the row's chunks. Rows whose penalties multiply
// log-probabilities need the normaliser before they choose, and another launch finds it. Rows that
// plain_candidates.cu supports are computed there if they are many, and by few_candidates.cu if
// rows are few and all are plain.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/choice/candidate_args.cuh"
#include "kernels/cuda/choice/candidate_edits.cuh"
#include "kernels/cuda/choice/choice_ops.h"
#include "kernels/cuda/choice/take_best.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/launch_values.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = kSumThreads;
constexpr int kNumWarps = kThreads / kWarpSize;
constexpr int kFewestPartsPerMultiprocessor = 4;
constexpr int kSelectBlocksEach = 6;  // per multiprocessor; limited by shared memory

// This thread's logits of a chunk, -infinity past the vocabulary's end.
__device__ void LoadChunk(const CandidateArgs& args, const float* logits, int begin,
                          float (&values)[kKeysPerThread]) {
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    const int id = begin + j * kThreads + static_cast<int>(threadIdx.x);
    values[j] = id < args.vocab_size ? logits[id] : -INFINITY;
  }
}

// *to = {the maximum, sum(exp(value - maximum))} of the block's values.
__device__ void SumChunk(const float (&values)[kKeysPerThread], float2* to) {
  __shared__ float2 partials[kNumWarps];
  const float2 sum = WarpCombine(SumOf(values));
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *to = CombineShares<1>([&](int w) { return partials[w]; });
}

// WarpNormalizer, for every thread.
__device__ float2 NormalizerOf(const CandidateArgs& args, int row) {
  __shared__ float2 normalizer;
  if (threadIdx.x < kWarpSize) {
    const float2 found = WarpNormalizer(args, row);
    if (threadIdx.x == 0) normalizer = found;
  }
  __syncthreads();
  return normalizer;
}

// For rows that need their normaliser first. Grid: (chunks, rows). Bound by memory: the logits are
// read once.
__global__ void __launch_bounds__(kThreads) SumChunksKernel(CandidateArgs args) {
  const int row = blockIdx.y;
  if (args.rows[row].normalization != Normalization::kBeforeEdits) return;
  float values[kKeysPerThread];
  LoadChunk(args, args.logits + row * args.logits_stride, blockIdx.x * kChunk, values);
  SumChunk(values, args.sums + static_cast<int64_t>(row) * args.num_chunks + blockIdx.x);
}

// Normalises and edits this thread's values of a chunk. `raw` receives the chunk's logits, `scores`
// the edited values.
__device__ void EditValues(const CandidateArgs& args, const CandidateRow& row, int begin,
                           float2 normalizer, float* raw, float* scores,
                           float (&values)[kKeysPerThread]) {
  const bool normalize = row.normalization == Normalization::kBeforeEdits;
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    const int i = j * kThreads + static_cast<int>(threadIdx.x);
    raw[i] = values[j];
    scores[i] = normalize ? values[j] - normalizer.x - normalizer.y : values[j];
    if (row.forced_id >= 0) scores[i] = begin + i == row.forced_id ? 0.0f : -INFINITY;
  }
  __syncthreads();
  const int end = min(begin + kChunk, args.vocab_size);
  EditChunk(args.penalties, row.first_penalty, row.last_penalty, begin, end, scores, Penalize{row});
  __syncthreads();
  EditChunk(args.biases, row.first_bias, row.last_bias, begin, end, scores, AddBias());
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    values[j] = scores[j * kThreads + static_cast<int>(threadIdx.x)];
  }
}

// Writes edited values back to the logits. Compares bits, because NaN differs from itself.
__device__ void StoreEdited(const CandidateArgs& args, const float (&values)[kKeysPerThread],
                            const float* raw, int begin, float* logits) {
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    const int i = j * kThreads + static_cast<int>(threadIdx.x);
    if (begin + i < args.vocab_size && __float_as_uint(values[j]) != __float_as_uint(raw[i])) {
      logits[begin + i] = values[j];
    }
  }
}

// Whether all other blocks of the row have called this. Then everything that they wrote before is
// visible, past L1. Resets the count to 0 for the next call.
__device__ bool IsLast(int32_t* num_done, int num_blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;\n"
                 : "=r"(before)
                 : "l"(num_done)
                 : "memory");
    last = before == num_blocks - 1;
    if (last) *num_done = 0;
  }
  __syncthreads();
  return last;
}

// The unedited logit of candidate `key`, which is in its chunk's list (best first).
__device__ float RawOf(const uint64_t* candidates, const float* raw, int count, uint64_t key) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (__ldcg(candidates + middle) > key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return __ldcg(raw + low);
}

// Sorts the best of candidate(0) .. candidate(total - 1) into keys[0 .. count), one part at a time
// together with the best so far.
template <int kSize, typename Candidates>
__device__ void SortParts(const Candidates& candidate, int total, int count, uint64_t* keys) {
  int kept = 0;
  for (int next = 0; next < total;) {
    const int taken = min(total - next, kSize - kept);
    __syncthreads();
    for (int i = kept + static_cast<int>(threadIdx.x); i < kSize; i += kThreads) {
      keys[i] = i - kept < taken ? candidate(next + i - kept) : 0;
    }
    BitonicSort<kSize>(keys);
    next += taken;
    kept = count;
  }
}

// TakeBest, not inlined. A step of few rows runs each of its instructions once, or twice from here.
// So most of its time goes to fetching them from memory.
__device__ __noinline__ void TakeBestKeys(const uint64_t (&own)[kKeysPerThread], int count,
                                          uint64_t* keys) {
  TakeBest<kThreads>(own, count, keys);
}

// Merges the best of a row's chunks into keys[0 .. row.count). Returns the row's normaliser, whose
// terms are loaded together with the candidates.
__device__ float2 MergeChunks(const CandidateArgs& args, int row, const uint64_t* lists, int count,
                              uint64_t* keys) {
  const int total = args.num_chunks * count;
  const auto candidate = [&](int i) {
    return __ldcg(lists + static_cast<int64_t>(i / count) * args.max_count + i % count);
  };
  if (count > kMostTaken || total > kChunk) {
    SortParts<kChunk>(candidate, total, count, keys);
    return NormalizerOf(args, row);
  }
  uint64_t own[kKeysPerThread];
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    own[j] = 0;
    if (j * kThreads >= total) continue;  // usually for all threads
    const int i = j * kThreads + static_cast<int>(threadIdx.x);
    if (i < total) own[j] = candidate(i);
  }
  const float2 normalizer = NormalizerOf(args, row);
  TakeBestKeys(own, count, keys);
  return normalizer;
}

// Computes a row's results from those of its chunks. Called by one block. `keys` is in shared
// memory.
__device__ void FinishRow(const CandidateArgs& args, const CandidateRow& row, int r,
                          uint64_t* keys) {
  const int64_t first = static_cast<int64_t>(r) * args.num_chunks * args.max_count;
  const uint64_t* lists = args.candidates + first;
  const float* logits = args.logits + r * args.logits_stride;
  const float2 normalizer = MergeChunks(args, r, lists, row.count, keys);
  if (threadIdx.x == 0 && args.log_normalizers != nullptr) {
    args.log_normalizers[r] = normalizer.x + normalizer.y;
  }
  const bool normalize = row.normalization == Normalization::kOfTheChosen;
  if (normalize) {
    for (int i = threadIdx.x; i < row.count; i += kThreads) {
      const int id = IdOf(keys[i]);
      float score = logits[id] - normalizer.x - normalizer.y;
      score =
          EditOne(args.penalties, row.first_penalty, row.last_penalty, id, score, Penalize{row});
      score = EditOne(args.biases, row.first_bias, row.last_bias, id, score, AddBias());
      keys[i] = CandidateKey(score, id);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < row.count; i += kThreads) {
    const uint64_t key = keys[i];
    int place = i;
    if (normalize) {  // rounding may have changed the order
      place = 0;
      for (int j = 0; j < row.count; ++j) place += keys[j] > key;
    }
    const int64_t to = static_cast<int64_t>(r) * args.max_count + place;
    args.values[to] = ValueOf(key);
    args.ids[to] = IdOf(key);
    if (args.raw_values == nullptr) continue;
    const int64_t chunk = IdOf(key) / kChunk * static_cast<int64_t>(args.max_count);
    args.raw_values[to] = row.edits_in_place
                              ? RawOf(lists + chunk, args.raw + first + chunk, row.count, key)
                              : logits[IdOf(key)];
  }
}

// Offsets of a call's rows and their edits from the start of its values, in bytes.
struct EditOffsets {
  int rows, penalties, biases;
};

// Grid: (chunks, rows). Bound by memory: the logits are read once, and written if edited in place.
// Bound by the sorts' barriers for more than kMostTaken candidates, and by latencies for few rows.
__global__ void __launch_bounds__(kThreads, kSelectBlocksEach)
    SelectKernel(CandidateArgs args, EditOffsets at, const __grid_constant__ LaunchValues edits) {
  __shared__ float raw[kChunk], scores[kChunk];
  __shared__ uint64_t keys[kChunk];
  WaitForEarlierKernels();
  const int r = blockIdx.y;
  const auto row = edits.Get<CandidateRow>(at.rows, r);
  if (args.plain_apart && row.plain) return;
  const char* const values_of_host = edits.staged != nullptr ? edits.staged : edits.own;
  args.penalties = reinterpret_cast<const LogitsEdits::Penalty*>(values_of_host + at.penalties);
  args.biases = reinterpret_cast<const LogitsEdits::Bias*>(values_of_host + at.biases);
  float* logits = args.logits + r * args.logits_stride;
  const int begin = blockIdx.x * kChunk;
  const int64_t list = static_cast<int64_t>(r) * args.num_chunks + blockIdx.x;
  float values[kKeysPerThread];
  LoadChunk(args, logits, begin, values);
  float2 normalizer = {0.0f, 0.0f};
  if (row.normalization == Normalization::kBeforeEdits) {
    normalizer = NormalizerOf(args, r);
  } else {
    SumChunk(values, args.sums + list);
  }
  if (row.edited) EditValues(args, row, begin, normalizer, raw, scores, values);
  if (row.edits_in_place) StoreEdited(args, values, raw, begin, logits);

  uint64_t own[kKeysPerThread];
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    const int i = j * kThreads + static_cast<int>(threadIdx.x);
    own[j] = begin + i < args.vocab_size ? CandidateKey(values[j], begin + i) : 0;
    if (row.count > kMostTaken) keys[i] = own[j];
  }
  if (row.count > kMostTaken) {
    BitonicSort<kChunk>(keys);
  } else {
    TakeBestKeys(own, row.count, keys);
  }
  for (int i = threadIdx.x; i < row.count; i += kThreads) {
    args.candidates[list * args.max_count + i] = keys[i];
    if (row.edits_in_place) {
      args.raw[list * args.max_count + i] = keys[i] == 0 ? 0.0f : raw[IdOf(keys[i]) - begin];
    }
  }
  int32_t* const num_done = edits.staged != nullptr ? &args.rows[r].num_done : args.num_done + r;
  if (IsLast(num_done, args.num_chunks)) FinishRow(args, row, r, keys);
}

// Sends all edits: with the launch for few rows, unless another kernel needs them too.
void SendEdits(Device& device, const FlatEdits& edits, bool of_one_launch, CandidateArgs& args,
               EditOffsets& at, LaunchValues& sent) {
  LaunchValuesBuilder values;
  at.rows = values.Add(std::span(edits.rows));
  at.penalties = values.Add(std::span(edits.penalties));
  at.biases = values.Add(std::span(edits.biases));
  args.num_done = device.counters();
  if (of_one_launch && args.num_rows <= Device::kNumCounters) {
    values.Send(device, sent);
  } else {
    sent.staged = values.Stage(device);
  }
  if (sent.staged == nullptr) return;
  // The device's own copy, in which it counts num_done.
  args.rows = reinterpret_cast<CandidateRow*>(const_cast<char*>(sent.staged) + at.rows);
  args.penalties = reinterpret_cast<const LogitsEdits::Penalty*>(sent.staged + at.penalties);
  args.biases = reinterpret_cast<const LogitsEdits::Bias*>(sent.staged + at.biases);
}

}  // namespace

void Compute(Device& device, const TopCandidatesParams& params) {
  const auto num_rows = static_cast<unsigned>(params.logits.num_rows());
  if (num_rows == 0) return;
  BEAMLINE_CHECK(params.max_count < kChunk);  // SortParts sorts more than it keeps
  const FlatEdits edits = FlattenEdits(params);
  CandidateArgs args = {};
  args.logits = params.logits.as<float>();
  args.logits_stride = params.logits.row_stride;
  args.num_rows = static_cast<int>(num_rows);
  args.vocab_size = static_cast<int>(params.logits.dim(-1));
  args.num_chunks = CeilDiv(args.vocab_size, kChunk);
  args.max_count = params.max_count;
  args.values = params.values;
  args.ids = params.ids;
  args.log_normalizers = params.log_normalizers;
  args.raw_values = params.raw_values;
  args.whole_normalizers = params.whole_normalizers;
  if (SelectFewCandidates(device, args, edits)) return;
  // A warp per chunk pays if the chunks fill the GPU. With fewer chunks, a block per chunk is
  // faster.
  const bool many = int64_t{args.num_chunks} * num_rows >=
                    int64_t{kFewestPartsPerMultiprocessor} * device.num_multiprocessors();
  args.plain_apart = many && edits.any_plain;
  const bool sums_apart = edits.any_before_edits && args.whole_normalizers == nullptr;
  CommonRow common = {.row = edits.rows.front(), .biases = {}};
  const bool alike = args.plain_apart && edits.all_alike;
  EditOffsets at = {};
  LaunchValues sent;
  if (alike) {
    std::ranges::copy(edits.biases, common.biases);
    if (!device.MayTransfer("a launch with values of the host")) return;
  } else {
    SendEdits(device, edits, /*of_one_launch=*/!args.plain_apart && !sums_apart, args, at, sent);
  }
  const size_t num_lists = size_t{num_rows} * args.num_chunks;
  args.sums = device.TakeScratch<float2>(num_lists);
  args.candidates = device.TakeScratch<uint64_t>(num_lists * args.max_count);
  args.raw = device.TakeScratch<float>(num_lists * args.max_count);
  if (!device.ok()) return;

  const dim3 grid(static_cast<unsigned>(args.num_chunks), num_rows);
  if (sums_apart) SumChunksKernel<<<grid, kThreads, 0, device.stream()>>>(args);
  if (args.plain_apart) SelectPlainCandidates(device, args, common);
  device.CheckLaunch("TopCandidates");
  if (args.plain_apart && !edits.any_other) return;
  LaunchOverlapped(device, "TopCandidates", SelectKernel, grid, kThreads, /*shared_bytes=*/0, args,
                   at, sent);
}

}  // namespace beamline::cuda
