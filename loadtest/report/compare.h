// Compares results side by side, and lists the differences of later ones from the first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// The column names, then one row per result; the first column is its label.
std::vector<std::vector<std::string>> ComparisonRows(const std::vector<Result>& results);

// One figure in two results.
struct FigureChange {
  std::string figure;  // "first token p99, ms"
  double base = 0;
  double other = 0;
  // (other - base) / base; absent if the base is 0.
  std::optional<double> change;
  bool is_worse = false;   // by more than the threshold
  bool is_better = false;  // by more than the threshold
};

// The smallest difference of error shares that counts, for any threshold: 0.001 of the requests.
inline constexpr double kLeastErrorShare = 0.001;

// Compares figures that both results have: rates, the share of errors, and p50, p90 and p99 of each
// latency. `threshold` is a share, 0.05 for 5%; without it no figure is worse or better.
std::vector<FigureChange> FigureChanges(const Result& base, const Result& other,
                                        std::optional<double> threshold);

struct ResultComparison {
  std::string text;       // tables for terminals
  bool is_worse = false;  // a figure of a later result is worse by more than the threshold
};

ResultComparison Compare(const std::vector<Result>& results, std::optional<double> threshold);

}  // namespace beamline::loadtest
