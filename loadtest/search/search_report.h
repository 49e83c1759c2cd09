// Everything that a search for the highest rate found out.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/report.h"
#include "loadtest/search/probe.h"
#include "loadtest/search/rate_search.h"

namespace beamline::loadtest {

// How a search ended.
enum class SearchEnd {
  kFound,         // between a rate that holds and one that fails, as close as was asked for
  kLowestFails,   // no rate of the range holds
  kHighestHolds,  // every rate that was probed holds
  kOutOfTime,
  kInterrupted,
  kBroken,  // a probe could not be run
};

// "found", "lowest_fails", "highest_holds", "out_of_time", "interrupted", "broken".
const char* SearchEndName(SearchEnd end);

struct SearchReport {
  std::string label;
  Environment environment;
  LoadDescription load;  // without a rate
  RateSearch::Range range;
  int tries = 1;  // of a rate
  ProbeLimits limits;
  double settle_s = 0;
  double max_time_s = 0;
  double elapsed_s = 0;
  std::vector<Probe> probes;  // as they were run
  SearchEnd end = SearchEnd::kFound;
  std::string fault;         // why the search is kBroken
  double first_probe_s = 0;  // what the first probe takes, or would have taken

  // Of `probes` in the order of their rates.
  std::vector<size_t> ByRate() const;
  // What curves are drawn of: of each rate the last probe, which decided, without interrupted ones.
  std::vector<size_t> Curve() const;
  // Of kLatencies those that some probe has.
  std::vector<const Latency*> Measured() const;
  // The one with the highest rate that holds; the last one of the lowest rate above that that
  // fails.
  std::optional<size_t> Highest() const;
  std::optional<size_t> LowestFailing() const;
  // What the knee is of: the first objective's percentile, else end to end p99.
  Objective KneeFigure() const;
  // The probe at the knee of that over the rate (knee.h).
  std::optional<size_t> Knee() const;
  // Whether some probe was measured: else the search says nothing of any rate.
  bool HasVerdict() const;
  // Whether a rate holds and none fails above it, so that the server may hold more.
  bool IsLowerBound() const;
  // What was found.
  std::string Finding() const;
  // That, and how the search ended: a sentence or two.
  std::string Conclusion() const;
};

// The table of probes and the conclusion, for terminals.
std::string FormatSearch(const SearchReport& report);
// A line about a probe that has just ended.
std::string FormatProbe(const Probe& probe);

// The text of --csv: a line for each probe, as they were run.
std::string SearchCsv(const SearchReport& report);

}  // namespace beamline::loadtest
