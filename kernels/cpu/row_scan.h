// Vectorised passes over one row of logits. Comparisons treat NaN as -infinity, so that a broken
// row still gives a result; sums keep NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/math.h"

namespace beamline::cpu {

// The maxima of a row's chunks summarise it: most chunks have no good candidate and are skipped.
inline constexpr size_t kScanChunk = 32;
constexpr size_t NumScanChunks(size_t size) { return CeilDiv(size, kScanChunk); }

// The row's maximum (-infinity if it is empty or has only NaN). chunk_maxima [NumScanChunks(size)]
// receives each chunk's maximum.
float ScanMaxima(const float* row, size_t size, float* chunk_maxima);

// sum(exp(row - maximum)).
double SumExp(const float* row, size_t size, float maximum);

// to = row / temperature. NaN becomes -infinity, and infinity the largest float.
void ScaleRow(const float* row, size_t size, float temperature, float* to);

// masses = exp(row - maximum). chunk_sums [NumScanChunks(size)] receives each chunk's sum.
void ExpRow(const float* row, size_t size, float maximum, float* masses, float* chunk_sums);

// row = row - maximum - log_sum: log_softmax in the order of PyTorch's arithmetic.
void SubtractTwice(float* row, size_t size, float maximum, float log_sum);

struct Candidate {
  float value = 0;
  int32_t id = 0;

  // Better candidates first: the higher value, then the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  }
};

// Appends every element >= threshold, in the order of ids.
void CollectAtLeast(const float* row, size_t size, const float* chunk_maxima, float threshold,
                    std::vector<Candidate>& candidates);

// A bound that at least `count` elements reach: the count-th best chunk maximum, or -infinity if
// there are fewer chunks. `order` [NumScanChunks(size)] is working memory.
float BoundOfBest(size_t size, size_t count, const float* chunk_maxima, float* order);

// The best `count` elements of a row, sorted; ties go to the lower id. REQUIRES: count <= size;
// chunk_maxima from ScanMaxima; `order` as above.
void SelectBest(const float* row, size_t size, size_t count, const float* chunk_maxima,
                float* order, std::vector<Candidate>& candidates);

}  // namespace beamline::cpu
