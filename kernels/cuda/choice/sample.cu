// Sample: temperature, top-k, top-p, min-p, typical-p (Hugging Face's order), then one sample.
// Nothing is sorted. A filter works on a list of the row's greatest tokens (sample_listed.cuh). If
// the list does not show what the filter keeps, it finds its threshold by bisection over the bits
// of the key. Probability masses are summed as integers, so that results do not depend on the order
// of additions.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/choice/choice_ops.h"
#include "kernels/cuda/choice/sample_listed.cuh"
#include "kernels/cuda/choice/sample_row.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/philox.h"

namespace beamline::cuda {
namespace {

// Limit of the rows of a launch. Each takes two words of scratch memory per token of the
// vocabulary.
constexpr size_t kMostRows = 264;

// Sums kCount numbers at once over the block. Every thread gets the sums.
template <int kCount>
__device__ void BlockSums(uint64_t (&x)[kCount]) {
  __shared__ uint64_t partials[kCount][kSampleWarps], totals[kCount];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint64_t sum = WarpSum(x[i]);
    if (lane == 0) partials[i][warp] = sum;
  }
  __syncthreads();
  if (warp < kCount) {
    const uint64_t total = WarpSum(partials[warp][lane]);
    if (lane == 0) totals[warp] = total;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = totals[i];
}

__device__ uint64_t TotalMass(const Row& row) {
  uint64_t total = 0;
  ForEachToken(row, [&](int id) { total += FixedMass(row.masses[id]); });
  return SampleBlockSum(total);
}

// The greatest key such that the tokens with this or a greater key weigh at least `target`; 0 if
// all tokens weigh less. A pass over the row finds three bits of the key (the first pass two). A
// pass needs only the tokens whose higher bits are the threshold's, and these are soon few.
template <typename Weight>
__device__ uint32_t FindThreshold(const Row& row, uint64_t target, Weight weight) {
  constexpr int kBits = 3;
  constexpr uint32_t kMostDigit = 7;
  uint32_t threshold = 0;
  uint64_t above = 0;  // weight of the tokens whose higher bits are greater
  for (int shift = 30; shift >= 0; shift -= kBits) {
    uint64_t sums[kMostDigit] = {};  // of digits >= 1, >= 2, ...
    ForEachToken(row, [&](int id) {
      const uint32_t digits = row.keys[id] >> shift;
      const uint32_t prefix = shift == 30 ? 0 : digits >> kBits;
      if (prefix != (shift == 30 ? 0 : threshold >> shift >> kBits)) return;
      const uint32_t digit = shift == 30 ? digits : digits & kMostDigit;
      const uint64_t w = weight(id);
#pragma unroll
      for (uint32_t c = 0; c < kMostDigit; ++c) {
        if (digit > c) sums[c] += w;
      }
    });
    BlockSums(sums);
    uint32_t digit = 0;
#pragma unroll
    for (uint32_t c = 0; c < kMostDigit; ++c) {
      if (above + sums[c] >= target) digit = c + 1;
    }
    // sums[digit], without indexing registers by a variable.
    uint64_t greater = 0;
#pragma unroll
    for (uint32_t c = 0; c < kMostDigit; ++c) {
      if (c == digit) greater = sums[c];
    }
    above += greater;
    threshold |= digit << shift;
  }
  return threshold;
}

// The part of the vocabulary that a warp owns, if the order of ids matters.
struct Stretch {
  int begin, end;
};
__device__ Stretch StretchOf(const Row& row, int warp) {
  const int size = CeilDiv(row.vocab_size, kSampleThreads) * kWarpSize;
  return {min(warp * size, row.vocab_size), min((warp + 1) * size, row.vocab_size)};
}

// Calls body(id, weight, before) for every token. `before` is the weight of the tokens with lower
// ids. `weight` is not called for ids past the end.
template <typename Weight, typename Body>
__device__ void ScanTokens(const Row& row, Weight weight, Body body) {
  __shared__ uint64_t stretch_sums[kSampleWarps];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const Stretch stretch = StretchOf(row, warp);
  uint64_t sum = 0;
  for (int id = stretch.begin + lane; id < stretch.end; id += kWarpSize) sum += weight(id);
  sum = WarpSum(sum);
  __syncthreads();
  if (lane == 0) stretch_sums[warp] = sum;
  __syncthreads();
  uint64_t before = 0;
  for (int i = 0; i < warp; ++i) before += stretch_sums[i];
  for (int first = stretch.begin; first < stretch.end; first += kWarpSize) {
    const int id = first + lane;
    const uint64_t own = id < stretch.end ? weight(id) : 0;
    const uint64_t through = InclusiveScan(own);
    if (id < stretch.end) body(id, own, before + through - own);
    before += __shfl_sync(kFullMask, through, kWarpSize - 1);
  }
  __syncthreads();
}

// Keeps the fewest tokens whose mass reaches `share` of the whole, at least one. Greater keys come
// first, and of equal keys lower ids.
__device__ void KeepTopMass(const Row& row, float share) {
  const uint64_t total = TotalMass(row);
  const uint64_t target = TargetMass(share, total);
  const auto mass = [&](int id) { return FixedMass(row.masses[id]); };
  const uint32_t threshold = FindThreshold(row, target, mass);
  uint64_t above = 0;
  ForEachToken(row, [&](int id) {
    if (row.keys[id] > threshold) above += mass(id);
  });
  above = SampleBlockSum(above);
  ScanTokens(
      row, [&](int id) { return row.keys[id] == threshold ? mass(id) : 0; },
      [&](int id, uint64_t, uint64_t before) {
        const uint32_t key = row.keys[id];
        if (key < threshold || (key == threshold && above + before >= target)) row.masses[id] = 0;
      });
}

__device__ void KeepTopK(const Row& row, int32_t top_k) {
  const uint32_t threshold =
      FindThreshold(row, static_cast<uint64_t>(top_k), [](int) { return uint64_t{1}; });
  ForEachToken(row, [&](int id) {
    if (row.keys[id] < threshold) row.masses[id] = 0;
  });
  __syncthreads();
}

// Keeps the tokens whose information content is closest to the entropy.
// Source: Meister et al., arXiv:2202.00666.
__device__ void KeepTypical(const Row& row, float typical_p) {
  const double total = static_cast<double>(TotalMass(row)) / kMassScale;
  const float log_total = static_cast<float>(log(total));
  double entropy = 0;
  ForEachToken(row, [&](int id) {
    const float mass = row.masses[id];
    if (mass > 0) entropy -= mass / total * (row.Score(id) - row.maximum - log_total);
  });
  entropy = SampleBlockSum(entropy);
  ForEachToken(row, [&](int id) {
    const float log_probability = row.Score(id) - row.maximum - log_total;
    const float distance = fabsf(-log_probability - static_cast<float>(entropy));
    row.keys[id] = row.masses[id] > 0 ? ~OrderedKey(distance) : 0;
  });
  __syncthreads();
  KeepTopMass(row, typical_p);
}

// Samples from the kept tokens by the inverse of their cumulative distribution, in the order of
// their ids.
__device__ void Draw(const Row& row, double uniform, int32_t* drawn) {
  const uint64_t total = TotalMass(row);
  const uint64_t target = DrawnMass(uniform, total);
  ScanTokens(
      row, [&](int id) { return FixedMass(row.masses[id]); },
      [&](int id, uint64_t mass, uint64_t before) {
        if (before <= target && target < before + mass) *drawn = id;
      });
}

// The same for the whole row, without stored masses. A pass sums the masses of each stretch, and
// one warp finds the token in its own stretch.
__device__ void DrawUnfiltered(const Row& row, double uniform, int32_t* drawn) {
  __shared__ uint64_t stretch_sums[kSampleWarps];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const Stretch stretch = StretchOf(row, warp);
  const auto mass = [&](int id) { return FixedMass(row.Mass(row.Score(id))); };
  uint64_t sum = 0;
#pragma unroll 8
  for (int id = stretch.begin + lane; id < stretch.end; id += kWarpSize) sum += mass(id);
  sum = WarpSum(sum);
  if (lane == 0) stretch_sums[warp] = sum;
  __syncthreads();
  uint64_t total = 0, before = 0;
  for (int i = 0; i < kSampleWarps; ++i) {
    if (i < warp) before += stretch_sums[i];
    total += stretch_sums[i];
  }
  const uint64_t target = DrawnMass(uniform, total);
  if (before > target || target >= before + sum) return;
#pragma unroll 4
  for (int first = stretch.begin; first < stretch.end; first += kWarpSize) {
    const int id = first + lane;
    const uint64_t own = id < stretch.end ? mass(id) : 0;
    const uint64_t through = InclusiveScan(own);
    if (before + through - own <= target && target < before + through) *drawn = id;
    before += __shfl_sync(kFullMask, through, kWarpSize - 1);
  }
}

// Filters a row of any length and distribution, by passes over it.
__device__ void FilterRow(const Row& row, const SampleRow& options) {
  ForEachToken(row, [&](int id) {
    const float score = row.Score(id);
    row.masses[id] = row.Mass(score);
    row.keys[id] = OrderedKey(score);
  });
  __syncthreads();
  if (options.top_k > 0 && options.top_k < row.vocab_size) KeepTopK(row, options.top_k);
  if (options.top_p < 1.0f) KeepTopMass(row, options.top_p);
  if (options.min_p > 0.0f) {
    ForEachToken(row, [&](int id) {
      if (row.masses[id] < fminf(options.min_p, 1.0f)) row.masses[id] = 0;
    });
    __syncthreads();
  }
  if (options.typical_p < 1.0f) KeepTypical(row, options.typical_p);
}

__device__ bool Filters(const SampleRow& options, int vocab_size) {
  return (options.top_k > 0 && options.top_k < vocab_size) || options.top_p < 1.0f ||
         options.min_p > 0.0f || options.typical_p < 1.0f;
}

// Grid: one block per sample. Bound by the latency of its passes over the row, which stays in L2
// after the first one. There are 2 passes without filters, or if the list shows what is kept.
// Otherwise some 12 more for each of top-k, top-p and typical-p.
__global__ void __launch_bounds__(kSampleThreads)
    SampleKernel(const float* logits, int64_t logits_stride, int vocab_size, const SampleRow* rows,
                 float* masses, uint32_t* keys, int32_t* ids, float* values) {
  __shared__ int32_t drawn;
  __shared__ SampleList list;
  const SampleRow options = rows[blockIdx.x];
  Row row;
  row.logits = logits + options.row * logits_stride;
  row.masses = masses + static_cast<int64_t>(blockIdx.x) * vocab_size;
  row.keys = keys + static_cast<int64_t>(blockIdx.x) * vocab_size;
  row.vocab_size = vocab_size;
  row.temperature = options.temperature;
  if (threadIdx.x == 0) drawn = 0;
  float greatest = -INFINITY;
  ForEachToken(row, [&](int id) { greatest = fmaxf(greatest, row.logits[id]); });
  row.maximum = row.ScoreOf(SampleBlockMax(greatest));
  if (row.maximum > -INFINITY) {  // otherwise no token is allowed, and the result is 0
    const double uniform = UniformDraw(options.seed, options.sequence, options.position);
    if (!Filters(options, vocab_size)) {
      DrawUnfiltered(row, uniform, &drawn);
    } else if (!DrawListed(row, options, greatest, uniform, list, &drawn)) {
      FilterRow(row, options);
      Draw(row, uniform, &drawn);
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  ids[blockIdx.x] = drawn;
  if (values != nullptr) values[blockIdx.x] = row.logits[drawn];
}

}  // namespace

void Compute(Device& device, const SampleParams& params) {
  const int vocab_size = static_cast<int>(params.logits.dim(-1));
  for (size_t first = 0; first < params.rows.size(); first += kMostRows) {
    const auto part = params.rows.subspan(first, std::min(kMostRows, params.rows.size() - first));
    device.BeginOperator();
    const SampleRow* rows = device.Stage(part);
    float* masses = device.TakeScratch<float>(part.size() * vocab_size);
    uint32_t* keys = device.TakeScratch<uint32_t>(part.size() * vocab_size);
    if (!device.ok()) return;
    SampleKernel<<<static_cast<unsigned>(part.size()), kSampleThreads, 0, device.stream()>>>(
        params.logits.as<float>(), params.logits.row_stride, vocab_size, rows, masses, keys,
        params.ids + first, params.values == nullptr ? nullptr : params.values + first);
    device.CheckLaunch("Sample");
  }
}

}  // namespace beamline::cuda
