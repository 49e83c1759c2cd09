#include "loadtest/report/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace beamline::loadtest {
namespace {

// Values below 2 * 1024 have a bucket each. Each further power of two is split into 1024 buckets,
// so a bucket is at most 1/1024 of its values wide.
constexpr int kSubBucketBits = 10;
constexpr int64_t kSubBuckets = int64_t{1} << kSubBucketBits;

size_t BucketOf(int64_t value) {
  const int width = static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
  const int shift = std::max(0, width - (kSubBucketBits + 1));
  return static_cast<size_t>(shift * kSubBuckets + (value >> shift));
}

int64_t HighestOf(size_t bucket) {
  const auto index = static_cast<int64_t>(bucket);
  if (index < 2 * kSubBuckets) return index;
  const int64_t shift = index / kSubBuckets - 1;
  const int64_t lowest = (index - shift * kSubBuckets) << shift;
  return lowest + ((int64_t{1} << shift) - 1);
}

}  // namespace

void Histogram::Record(int64_t value, int64_t count) {
  if (count <= 0) return;
  value = std::max<int64_t>(0, value);
  const size_t bucket = BucketOf(value);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  counts_[bucket] += count;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += count;
  const auto real = static_cast<double>(value);
  sum_ += real * static_cast<double>(count);
  sum_of_squares_ += real * real * static_cast<double>(count);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

double Histogram::Mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

double Histogram::StandardDeviation() const {
  if (count_ == 0) return 0.0;
  const double mean = Mean();
  return std::sqrt(std::max(0.0, sum_of_squares_ / static_cast<double>(count_) - mean * mean));
}

int64_t Histogram::ValueAtQuantile(double quantile) const {
  if (count_ == 0) return 0;
  const double share = std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count_);
  // 0.999 * 1000 is slightly more than 999 in binary, which must not select the 1000th value.
  const auto rank = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share - 1e-6)));
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    seen += counts_[bucket];
    if (seen >= rank) return std::min(HighestOf(bucket), max_);
  }
  return max_;
}

std::vector<Histogram::Bucket> Histogram::Buckets() const {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) buckets.push_back({HighestOf(i), counts_[i]});
  }
  return buckets;
}

}  // namespace beamline::loadtest
