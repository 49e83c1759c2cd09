// Several results side by side, and what the later ones differ in from the first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// The names of the columns, then a row a result; the first column is its label.
std::vector<std::vector<std::string>> ComparisonRows(const std::vector<Result>& results);

// A figure of two results.
struct FigureChange {
  std::string figure;  // "first token p99, ms"
  double base = 0;
  double other = 0;
  // (other - base) / base; absent where the base is 0.
  std::optional<double> change;
  bool is_worse = false;   // by more than the threshold
  bool is_better = false;  // likewise
};

// Least difference of the share of errors that counts, whatever the threshold: a thousandth of the
// requests.
inline constexpr double kLeastErrorShare = 0.001;

// What both results have: rates, the share of errors, and p50, p90 and p99 of each latency.
// `threshold` is a share, 0.05 for 5%; without one no figure is worse or better.
std::vector<FigureChange> FigureChanges(const Result& base, const Result& other,
                                        std::optional<double> threshold);

struct ResultComparison {
  std::string text;       // tables for terminals
  bool is_worse = false;  // some figure of some result after the first, by more than the threshold
};

ResultComparison Compare(const std::vector<Result>& results, std::optional<double> threshold);

}  // namespace beamline::loadtest
