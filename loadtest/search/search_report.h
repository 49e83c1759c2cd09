// All results of a rate search.
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
  kFound,         // between a rate that holds and one that fails, within the requested precision
  kLowestFails,   // the lowest rate of the range fails
  kHighestHolds,  // the highest rate of the range holds
  kOutOfTime,
  kInterrupted,
  kBroken,  // a probe could not run
};

// "found", "lowest_fails", "highest_holds", "out_of_time", "interrupted", "broken".
const char* SearchEndName(SearchEnd end);

struct SearchReport {
  std::string label;
  Environment environment;
  LoadDescription load;  // its rate is not set
  RateSearch::Range range;
  int tries = 1;  // probes per rate
  ProbeLimits limits;
  double settle_s = 0;
  double max_time_s = 0;
  double elapsed_s = 0;
  std::vector<Probe> probes;  // in the order in which they ran
  SearchEnd end = SearchEnd::kFound;
  std::string fault;         // why the search is kBroken
  double first_probe_s = 0;  // duration of the first probe, even if it did not run

  // Indices of `probes`, ordered by rate.
  std::vector<size_t> ByRate() const;
  // The probes to draw: for each rate the last one, which decided; without interrupted ones.
  std::vector<size_t> Curve() const;
  // The latencies of kLatencies that some probe measured.
  std::vector<const Latency*> Measured() const;
  // The probe of the highest rate that holds, and the last probe of the lowest failing rate above
  // it.
  std::optional<size_t> Highest() const;
  std::optional<size_t> LowestFailing() const;
  // The figure whose knee is shown: the first objective's percentile, else end to end p99.
  Objective KneeFigure() const;
  // The probe at the knee of KneeFigure over the rate (knee.h).
  std::optional<size_t> Knee() const;
  // Whether a probe was a valid measurement.
  bool HasVerdict() const;
  // Whether a rate holds and none above it failed, so that the server may sustain more.
  bool IsLowerBound() const;
  // The result in a sentence or two.
  std::string Finding() const;
  // The result, and how the search ended.
  std::string Conclusion() const;
};

// The table of probes and the conclusion, for terminals.
std::string FormatSearch(const SearchReport& report);
// One line about a finished probe.
std::string FormatProbe(const Probe& probe);

// The content of --csv: one line per probe, in the order in which they ran.
std::string SearchCsv(const SearchReport& report);

}  // namespace beamline::loadtest
