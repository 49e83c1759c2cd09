#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cpu/row_scan.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

HWY_INLINE VF LowestIfNaN(VF x) {
  return hn::IfThenElse(hn::Eq(x, x), x, hn::Set(kF32, -std::numeric_limits<float>::infinity()));
}

float Maxima(const float* row, size_t size, float* chunk_maxima) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const size_t lanes = NumLanes();
  VF total = hn::Set(kF32, lowest);
  size_t chunk = 0;
  for (; (chunk + 1) * kScanChunk <= size; ++chunk) {
    const float* from = row + chunk * kScanChunk;
    VF maxima = hn::Set(kF32, lowest);
    for (size_t i = 0; i < kScanChunk; i += lanes) {
      maxima = hn::Max(maxima, LowestIfNaN(hn::LoadU(kF32, from + i)));
    }
    maxima = hn::MaxOfLanes(kF32, maxima);
    chunk_maxima[chunk] = hn::GetLane(maxima);
    total = hn::Max(total, maxima);
  }
  float maximum = hn::GetLane(total);
  if (chunk * kScanChunk < size) {
    float last = lowest;
    for (size_t i = chunk * kScanChunk; i < size; ++i) last = row[i] > last ? row[i] : last;
    chunk_maxima[chunk] = last;
    maximum = std::max(maximum, last);
  }
  return maximum;
}

// Sums blocks in float32 and the row in float64. Each lane adds only few numbers, whatever the
// vector length: 512 numbers in one lane lose the sixth digit.
double SumExpRow(const float* row, size_t size, float maximum) {
  constexpr size_t kBlockVectors = 32;
  const VF shift = hn::Set(kF32, maximum);
  const size_t lanes = NumLanes();
  const size_t block = kBlockVectors * lanes;
  double total = 0;
  size_t i = 0;
  while (i + lanes <= size) {
    const size_t end = std::min(i + block, size);
    VF sum = hn::Zero(kF32);
    for (; i + lanes <= end; i += lanes) {
      sum = hn::Add(sum, ExpNonPositive(hn::Sub(hn::LoadU(kF32, row + i), shift)));
    }
    total += Sum(sum);
  }
  for (; i < size; ++i) total += hn::GetLane(ExpNonPositive(hn::Set(kF32, row[i] - maximum)));
  return total;
}

void SubtractTwiceRow(float* row, size_t size, float first, float second) {
  const VF firsts = hn::Set(kF32, first);
  const VF seconds = hn::Set(kF32, second);
  ForEachVector(size, [&](size_t i, auto load, auto store) HWY_ATTR {
    store(hn::Sub(hn::Sub(load(row + i), firsts), seconds), row + i);
  });
}

void ScaledRow(const float* row, size_t size, float temperature, float* to) {
  const VF divisor = hn::Set(kF32, temperature);
  const VF highest = hn::Set(kF32, std::numeric_limits<float>::max());
  ForEachVector(size, [&](size_t i, auto load, auto store) HWY_ATTR {
    store(hn::Min(LowestIfNaN(hn::Div(load(row + i), divisor)), highest), to + i);
  });
}

void MassRow(const float* row, size_t size, float maximum, float* masses, float* chunk_sums) {
  const VF shift = hn::Set(kF32, maximum);
  for (size_t begin = 0; begin < size; begin += kScanChunk) {
    VF sum = hn::Zero(kF32);
    const size_t count = std::min(kScanChunk, size - begin);
    ForEachVector(count, [&](size_t i, auto load, auto store) HWY_ATTR {
      const VF mass = ExpNonPositive(hn::Sub(load(row + begin + i), shift));
      store(mass, masses + begin + i);
      // A second load gives zeros in the lanes past the row's end.
      sum = hn::Add(sum, load(masses + begin + i));
    });
    chunk_sums[begin / kScanChunk] = Sum(sum);
  }
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {
HWY_EXPORT(Maxima);
HWY_EXPORT(SumExpRow);
HWY_EXPORT(SubtractTwiceRow);
HWY_EXPORT(ScaledRow);
HWY_EXPORT(MassRow);
}  // namespace

float ScanMaxima(const float* row, size_t size, float* chunk_maxima) {
  return HWY_DYNAMIC_DISPATCH(Maxima)(row, size, chunk_maxima);
}

double SumExp(const float* row, size_t size, float maximum) {
  return HWY_DYNAMIC_DISPATCH(SumExpRow)(row, size, maximum);
}

void ScaleRow(const float* row, size_t size, float temperature, float* to) {
  HWY_DYNAMIC_DISPATCH(ScaledRow)(row, size, temperature, to);
}

void ExpRow(const float* row, size_t size, float maximum, float* masses, float* chunk_sums) {
  HWY_DYNAMIC_DISPATCH(MassRow)(row, size, maximum, masses, chunk_sums);
}

void SubtractTwice(float* row, size_t size, float maximum, float log_sum) {
  HWY_DYNAMIC_DISPATCH(SubtractTwiceRow)(row, size, maximum, log_sum);
}

void CollectAtLeast(const float* row, size_t size, const float* chunk_maxima, float threshold,
                    std::vector<Candidate>& candidates) {
  for (size_t chunk = 0; chunk < NumScanChunks(size); ++chunk) {
    if (chunk_maxima[chunk] < threshold) continue;
    const size_t end = std::min(size, (chunk + 1) * kScanChunk);
    for (size_t i = chunk * kScanChunk; i < end; ++i) {
      const float value = std::isnan(row[i]) ? -std::numeric_limits<float>::infinity() : row[i];
      if (value >= threshold) candidates.push_back({value, static_cast<int32_t>(i)});
    }
  }
}

float BoundOfBest(size_t size, size_t count, const float* chunk_maxima, float* order) {
  const size_t num_chunks = NumScanChunks(size);
  if (count > num_chunks) return -std::numeric_limits<float>::infinity();
  if (count == 1) return *std::max_element(chunk_maxima, chunk_maxima + num_chunks);
  std::copy_n(chunk_maxima, num_chunks, order);
  std::nth_element(order, order + count - 1, order + num_chunks, std::greater<>());
  return order[count - 1];
}

void SelectBest(const float* row, size_t size, size_t count, const float* chunk_maxima,
                float* order, std::vector<Candidate>& candidates) {
  const float threshold = BoundOfBest(size, count, chunk_maxima, order);
  candidates.clear();
  CollectAtLeast(row, size, chunk_maxima, threshold, candidates);
  std::partial_sort(candidates.begin(), candidates.begin() + count, candidates.end());
  candidates.resize(count);
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
