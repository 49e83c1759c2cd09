// A latency histogram after Gil Tene's HdrHistogram. Log-linear buckets keep three significant
// digits over the whole range of int64, so p99.9 is as exact as p50.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline::loadtest {

class Histogram {
 public:
  struct Bucket {
    int64_t highest = 0;  // the largest value that falls into this bucket
    int64_t count = 0;
  };

  // Negative values count as 0.
  void Record(int64_t value, int64_t count = 1);
  // Adds the values of `other`.
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }  // exact
  int64_t max() const { return max_; }                    // exact
  double Mean() const;
  double StandardDeviation() const;

  // The value that a share `quantile` (0 .. 1) of the recorded values does not exceed. At most 0.1%
  // too high, never above max(); 0 if nothing was recorded.
  int64_t ValueAtQuantile(double quantile) const;

  // The non-empty buckets, ascending.
  std::vector<Bucket> Buckets() const;

 private:
  std::vector<int64_t> counts_;  // by bucket; sized for the largest value
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

}  // namespace beamline::loadtest
