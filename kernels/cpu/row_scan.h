// Vectorised passes over one row of logits. NaN counts as -infinity in comparisons, so that a
// broken row still gives an answer; sums keep it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/math.h"

namespace beamline::cpu {

// A row is summarised by the maxima of its chunks: most of them hold no good candidate and are
// skipped.
inline constexpr size_t kScanChunk = 32;
constexpr size_t NumScanChunks(size_t size) { return CeilDiv(size, kScanChunk); }

// The row's maximum (-infinity when it is empty or has no number); chunk_maxima
// [NumScanChunks(size)] receives each chunk's.
float ScanMaxima(const float* row, size_t size, float* chunk_maxima);

// sum(exp(row - maximum)).
double SumExp(const float* row, size_t size, float maximum);

// to = row / temperature, NaN as -infinity and infinity as the largest number.
void ScaleRow(const float* row, size_t size, float temperature, float* to);

// masses = exp(row - maximum); chunk_sums [NumScanChunks(size)] receives each chunk's sum.
void ExpRow(const float* row, size_t size, float maximum, float* masses, float* chunk_sums);

// row = row - maximum - log_sum: log_softmax in the order of PyTorch's arithmetic.
void SubtractTwice(float* row, size_t size, float maximum, float log_sum);

struct Candidate {
  float value = 0;
  int32_t id = 0;

  // Better first: the higher value, then the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  }
};

// Appends every element >= threshold, in the order of ids.
void CollectAtLeast(const float* row, size_t size, const float* chunk_maxima, float threshold,
                    std::vector<Candidate>& candidates);

// A bound that at least `count` elements reach: the count-th best chunk maximum, or -infinity when
// there are fewer chunks. `order` [NumScanChunks(size)] is working memory.
float BoundOfBest(size_t size, size_t count, const float* chunk_maxima, float* order);

// The best `count` of a row, sorted; its ties are settled by the lower id. REQUIRES: count <= size;
// ScanMaxima gave chunk_maxima; `order` as above.
void SelectBest(const float* row, size_t size, size_t count, const float* chunk_maxima,
                float* order, std::vector<Candidate>& candidates);

}  // namespace beamline::cpu
