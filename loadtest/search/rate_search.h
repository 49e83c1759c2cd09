// Chooses the rates to probe for the maximum sustainable rate.
#pragma once

#include <optional>

namespace beamline::loadtest {

class RateSearch {
 public:
  struct Range {
    double lowest = 1;        // > 0
    double highest = 10'000;  // >= lowest
    double growth = 2;        // > 1
    double precision = 0.05;  // > 0
  };

  // tries: how often a rate may be probed; it fails only if all probes fail.
  explicit RateSearch(const Range& range, int tries = 1) : range_(range), tries_(tries) {}

  // The rate to probe next; nullopt when the search is over. Starts with the lowest rate and
  // multiplies by `growth` until a rate fails or the highest holds. Then bisects (by the geometric
  // mean) between the highest rate that holds and the lowest that fails, until their quotient is at
  // most 1 + precision. Midpoints are rounded to three digits, so that reports show the exact rate.
  std::optional<double> Next() const;
  // REQUIRES: `rate` was returned by Next.
  void Add(double rate, bool holds);

  // The highest rate that held and the lowest that failed.
  std::optional<double> holding() const { return holding_; }
  std::optional<double> failing() const { return failing_; }
  bool HoldsAtTop() const { return holding_ && *holding_ >= range_.highest; }

 private:
  Range range_;
  int tries_;
  int num_failed_ = 0;             // failed probes of retried_
  std::optional<double> retried_;  // failed, but may be probed again
  std::optional<double> holding_;
  std::optional<double> failing_;
};

}  // namespace beamline::loadtest
