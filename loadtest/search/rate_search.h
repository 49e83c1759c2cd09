// Which rates to probe for the highest one that holds.
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

  // tries: how often a rate may be probed; it fails when it does so every time.
  explicit RateSearch(const Range& range, int tries = 1) : range_(range), tries_(tries) {}

  // The rate to probe next; nullopt when the search is over. At first the lowest, times `growth`
  // until one fails or the highest holds; then the geometric middle of the highest that holds and
  // the lowest that fails, until their quotient is at most 1 + precision. Middles have three
  // digits, so that a rate is what a report shows of it.
  std::optional<double> Next() const;
  // REQUIRES: `rate` is what Next returned.
  void Add(double rate, bool holds);

  // The highest rate that held, the lowest that failed.
  std::optional<double> holding() const { return holding_; }
  std::optional<double> failing() const { return failing_; }
  bool HoldsAtTop() const { return holding_ && *holding_ >= range_.highest; }

 private:
  Range range_;
  int tries_;
  int num_failed_ = 0;             // tries of retried_
  std::optional<double> retried_;  // failed, and may be probed once more
  std::optional<double> holding_;
  std::optional<double> failing_;
};

}  // namespace beamline::loadtest
