// TopCandidates: log-softmax, edits and the best tokens of each row. The vocabulary is cut into
// chunks, so that one row keeps many SMs busy: three launches, two passes over the logits.
#include <algorithm>

#include "kernels/cuda/candidate_edits.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/ordered_key.cuh"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNumWarps = kThreads / kWarpSize;
constexpr int kChunk = 2048;
constexpr int kKeysPerThread = kChunk / kThreads;
// Up to this many candidates are found by taking the maximum again and again, more by sorting.
constexpr int kMostRounds = 12;
constexpr int kMergeSize = 2048;
constexpr int kMergeKeysPerThread = 4;

struct CandidateArgs {
  float* logits;  // [num_rows, vocab_size]
  int64_t logits_stride;
  int vocab_size, num_chunks, max_count;
  const CandidateRow* rows;
  const LogitsEdits::Penalty* penalties;
  const LogitsEdits::Bias* biases;
  float2* sums;          // [num_rows, num_chunks]: a chunk's maximum and sum(exp(x - maximum))
  uint64_t* candidates;  // [num_rows, num_chunks, max_count], best first; the rest 0
  float* raw;            // as candidates: their logits
  float* values;
  int32_t* ids;
  float* log_normalizers;  // may be null
  float* raw_values;       // may be null
};

// (maximum, sum) of two disjoint sets together.
__device__ float2 Combine(float2 a, float2 b) {
  const float maximum = fmaxf(a.x, b.x);
  if (isinf(maximum)) return {maximum, a.y + b.y};
  return {maximum, a.y * expf(a.x - maximum) + b.y * expf(b.x - maximum)};
}

__device__ float2 WarpCombine(float2 x) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const float2 other = {__shfl_xor_sync(kFullMask, x.x, offset),
                          __shfl_xor_sync(kFullMask, x.y, offset)};
    x = Combine(x, other);
  }
  return x;
}

// Grid: (chunks, rows). Bound by memory: the logits read once.
__global__ void __launch_bounds__(kThreads) SumChunksKernel(CandidateArgs args) {
  __shared__ float2 partials[kNumWarps];
  const float* row = args.logits + blockIdx.y * args.logits_stride;
  const int begin = blockIdx.x * kChunk;
  float values[kKeysPerThread];
  float maximum = -INFINITY;
#pragma unroll
  for (int i = 0; i < kKeysPerThread; ++i) {
    const int id = begin + i * kThreads + threadIdx.x;
    values[i] = id < args.vocab_size ? row[id] : -INFINITY;
    maximum = fmaxf(maximum, values[i]);
  }
  float2 sum = {maximum, 0.0f};
  if (!isinf(maximum)) {
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) sum.y += expf(values[i] - maximum);
  }
  sum = WarpCombine(sum);
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kNumWarps; ++i) sum = Combine(sum, partials[i]);
  args.sums[blockIdx.y * args.num_chunks + blockIdx.x] = sum;
}

// The first entry of [first, last), sorted by id, whose id is at least `id`.
template <typename Entry>
__device__ int LowerBound(const Entry* entries, int first, int last, int id) {
  while (first < last) {
    const int middle = (first + last) / 2;
    if (entries[middle].id < id) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// Calls edit(entry, score) for the entries of ids [begin, end), scores[id - begin]; a thread takes
// all entries of one id, in order.
template <typename Entry, typename Edit>
__device__ void EditChunk(const Entry* entries, int first, int last, int begin, int end,
                          float* scores, Edit edit) {
  first = LowerBound(entries, first, last, begin);
  last = LowerBound(entries, first, last, end);
  for (int i = first + threadIdx.x; i < last; i += kThreads) {
    const int id = entries[i].id;
    if (i > first && entries[i - 1].id == id) continue;
    float score = scores[id - begin];
    for (int j = i; j < last && entries[j].id == id; ++j) score = edit(entries[j], score);
    scores[id - begin] = score;
  }
}

// Penalties, then biases, with the arithmetic of Hugging Face's processors.
__device__ void ApplyEdits(const CandidateArgs& args, const CandidateRow& row, int begin,
                           float* scores) {
  const int end = min(begin + kChunk, args.vocab_size);
  EditChunk(args.penalties, row.first_penalty, row.last_penalty, begin, end, scores,
            [&](const LogitsEdits::Penalty& penalty, float score) {
              if (row.repetition_penalty != 1.0f) {
                score = score < 0 ? score * row.repetition_penalty : score / row.repetition_penalty;
              }
              if (penalty.output_count > 0) {
                score -= row.presence_penalty;
                score -= __fmul_rn(row.frequency_penalty, static_cast<float>(penalty.output_count));
              }
              return score;
            });
  __syncthreads();
  EditChunk(args.biases, row.first_bias, row.last_bias, begin, end, scores,
            [](const LogitsEdits::Bias& bias, float score) { return score + bias.value; });
  __syncthreads();
}

// The `count` best of the block's keys, each thread holding kKeys, into best[0 .. count).
template <int kKeys>
__device__ void TakeMaxima(uint64_t (&keys)[kKeys], int count, uint64_t* best) {
  __shared__ uint64_t partials[2][kNumWarps];
  for (int round = 0; round < count; ++round) {
    uint64_t own = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) own = keys[i] > own ? keys[i] : own;
    own = WarpMax(own);
    uint64_t* const slots = partials[round % 2];
    if (threadIdx.x % kWarpSize == 0) slots[threadIdx.x / kWarpSize] = own;
    __syncthreads();
    for (int i = 0; i < kNumWarps; ++i) own = slots[i] > own ? slots[i] : own;
    if (threadIdx.x == 0) best[round] = own;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) keys[i] = keys[i] == own ? 0 : keys[i];
  }
  __syncthreads();
}

// Normalises and edits a chunk in place and finds its best.
// Grid: (chunks, rows). Bound by memory for few candidates: the logits read (and, where they
// change, written) once; by the sort's barriers for many.
__global__ void __launch_bounds__(kThreads) SelectChunksKernel(CandidateArgs args) {
  __shared__ float raw[kChunk], scores[kChunk];
  __shared__ uint64_t keys[kChunk];
  __shared__ float2 normalizer;
  const CandidateRow row = args.rows[blockIdx.y];
  float* logits = args.logits + blockIdx.y * args.logits_stride;
  const int begin = blockIdx.x * kChunk;
  const int size = min(kChunk, args.vocab_size - begin);
  if (threadIdx.x < kWarpSize) {
    float2 sum = {-INFINITY, 0.0f};
    const float2* sums = args.sums + blockIdx.y * args.num_chunks;
    for (int i = threadIdx.x; i < args.num_chunks; i += kWarpSize) sum = Combine(sum, sums[i]);
    sum = WarpCombine(sum);
    // An infinite maximum is the answer itself.
    if (threadIdx.x == 0) normalizer = {sum.x, isinf(sum.x) ? 0.0f : logf(sum.y)};
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0 && args.log_normalizers != nullptr) {
    args.log_normalizers[blockIdx.y] = normalizer.x + normalizer.y;
  }
  for (int i = threadIdx.x; i < size; i += kThreads) {
    raw[i] = logits[begin + i];
    scores[i] = row.normalize_first ? raw[i] - normalizer.x - normalizer.y : raw[i];
    if (row.forced_id >= 0) scores[i] = begin + i == row.forced_id ? 0.0f : -INFINITY;
  }
  __syncthreads();
  ApplyEdits(args, row, begin, scores);

  uint64_t own[kKeysPerThread];
#pragma unroll
  for (int j = 0; j < kKeysPerThread; ++j) {
    const int i = j * kThreads + threadIdx.x;
    own[j] = i < size ? CandidateKey(scores[i], begin + i) : 0;
    keys[i] = own[j];
    // Bits, because NaN differs from itself.
    if (i < size && __float_as_uint(scores[i]) != __float_as_uint(raw[i])) {
      logits[begin + i] = scores[i];
    }
  }
  __syncthreads();
  if (row.count <= kMostRounds) {
    TakeMaxima(own, row.count, keys);
  } else {
    BitonicSort<kChunk>(keys);
  }
  const int64_t first =
      (static_cast<int64_t>(blockIdx.y) * args.num_chunks + blockIdx.x) * args.max_count;
  for (int i = threadIdx.x; i < args.max_count; i += kThreads) {
    const uint64_t key = i < row.count && i < kChunk ? keys[i] : 0;
    args.candidates[first + i] = key;
    args.raw[first + i] = key == 0 ? 0.0f : raw[IdOf(key) - begin];
  }
}

// The logit of a candidate, which its chunk's list (best first) holds.
__device__ float RawOf(const uint64_t* candidates, const float* raw, int count, uint64_t key) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (candidates[middle] > key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return raw[low];
}

// The best of `total` candidates into keys[0 .. count): a part at a time, with those kept so far.
template <int kSize>
__device__ void SortParts(const uint64_t* candidates, int total, int count, uint64_t* keys) {
  int kept = 0;
  for (int next = 0; next < total;) {
    const int taken = min(total - next, kSize - kept);
    __syncthreads();
    for (int i = kept + threadIdx.x; i < kSize; i += kThreads) {
      keys[i] = i - kept < taken ? candidates[next + i - kept] : 0;
    }
    BitonicSort<kSize>(keys);
    next += taken;
    kept = count;
  }
}

// Merges the chunks' candidates. Grid: a block per row; shared memory: kMergeSize keys. Bound by
// barriers: one a candidate for a few, the sort's 66 steps for each kMergeSize candidates for many.
__global__ void __launch_bounds__(kThreads) MergeKernel(CandidateArgs args) {
  __shared__ uint64_t keys[kMergeSize];
  const int count = args.rows[blockIdx.x].count;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * args.num_chunks * args.max_count;
  const uint64_t* candidates = args.candidates + first;
  const int total = args.num_chunks * args.max_count;
  if (count <= kMostRounds && total <= kMergeKeysPerThread * kThreads) {
    uint64_t own[kMergeKeysPerThread];
#pragma unroll
    for (int j = 0; j < kMergeKeysPerThread; ++j) {
      const int i = j * kThreads + threadIdx.x;
      own[j] = i < total ? candidates[i] : 0;
    }
    TakeMaxima(own, count, keys);
  } else {
    SortParts<kMergeSize>(candidates, total, count, keys);
  }
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const uint64_t key = keys[i];
    const int64_t to = static_cast<int64_t>(blockIdx.x) * args.max_count + i;
    args.values[to] = ValueOf(key);
    args.ids[to] = IdOf(key);
    if (args.raw_values == nullptr) continue;
    const int64_t chunk = IdOf(key) / kChunk * static_cast<int64_t>(args.max_count);
    args.raw_values[to] = RawOf(candidates + chunk, args.raw + first + chunk, args.max_count, key);
  }
}

}  // namespace

void TopCandidates(Device& device, const TopCandidatesParams& params) {
  const auto num_rows = static_cast<unsigned>(params.logits.num_rows());
  if (num_rows == 0) return;
  BEAMLINE_CHECK(params.max_count < kMergeSize);  // a part holds more than what is kept
  const FlatEdits edits = FlattenEdits(params);
  CandidateArgs args = {};
  args.logits = params.logits.as<float>();
  args.logits_stride = params.logits.row_stride;
  args.vocab_size = static_cast<int>(params.logits.dim(-1));
  args.num_chunks = (args.vocab_size + kChunk - 1) / kChunk;
  args.max_count = params.max_count;
  args.rows = device.Stage(std::span(edits.rows));
  args.penalties = device.Stage(std::span(edits.penalties));
  args.biases = device.Stage(std::span(edits.biases));
  const size_t num_lists = size_t{num_rows} * args.num_chunks;
  args.sums = device.TakeScratch<float2>(num_lists);
  args.candidates = device.TakeScratch<uint64_t>(num_lists * args.max_count);
  args.raw = device.TakeScratch<float>(num_lists * args.max_count);
  args.values = params.values;
  args.ids = params.ids;
  args.log_normalizers = params.log_normalizers;
  args.raw_values = params.raw_values;
  if (!device.ok()) return;

  const dim3 grid(static_cast<unsigned>(args.num_chunks), num_rows);
  SumChunksKernel<<<grid, kThreads, 0, device.stream()>>>(args);
  SelectChunksKernel<<<grid, kThreads, 0, device.stream()>>>(args);
  MergeKernel<<<num_rows, kThreads, 0, device.stream()>>>(args);
  device.CheckLaunch("TopCandidates");
}

}  // namespace beamline::cuda
