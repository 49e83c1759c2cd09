// Everything that a run found out, as it is printed, written to JSON and compared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/histogram.h"
#include "loadtest/report/record.h"
#include "loadtest/report/seconds.h"
#include "loadtest/report/server_series.h"

namespace beamline::loadtest {

// Requests of one class of the workload, or of all. Latencies in nanoseconds, of requests that
// ended well; cancelled and failed ones would flatter them.
struct ClassSummary {
  std::string name;
  std::string kind;
  std::map<std::string, int64_t> endings;  // by EndingName
  std::map<std::string, int64_t> codes;    // by status code
  int64_t num_items = 0;                   // of requests that ended well
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t good = 0;  // within the objectives
  Histogram time_to_first_token;
  Histogram inter_token;            // between neighbouring messages with tokens
  Histogram time_per_output_token;  // one value a request
  Histogram end_to_end;
  Histogram lateness;  // of the sender, all requests

  int64_t Count(Ending ending) const;
  int64_t NumRequests() const;
  void Merge(const ClassSummary& other);
};

struct Verification {
  int64_t num_checked = 0;
  int64_t num_mismatches = 0;
  std::vector<std::string> examples;  // the first few mismatches
};

// The failures with one status code.
struct ErrorSummary {
  int64_t count = 0;
  std::vector<std::string> messages;  // the first few different ones, a line each
};

// What the recorder has found.
struct RunSummary {
  std::vector<ClassSummary> classes;
  ClassSummary total;
  double sending_s = 0;  // from the first to the last request sent after the warm-up
  double elapsed_s = 0;  // from the end of the warm-up to the last answer
  int64_t num_warmup = 0;
  // Ended well between the end of the warm-up and that of sending, whenever they were sent.
  int64_t num_answered_in_time = 0;
  std::vector<std::string> error_examples;
  std::map<std::string, ErrorSummary> errors;  // by status code; failures alone
  std::vector<Second> seconds;                 // from the run's start, warm-up included

  double AchievedRate() const;  // requests sent a second
  double RequestsPerSecond() const;
  double ItemsPerSecond() const;
  double OutputTokensPerSecond() const;
  double GoodPerSecond() const;
};

// The trace that a run replays.
struct TraceDescription {
  std::string file;
  double speed = 1;
  int64_t num_requests = 0;
  int64_t num_clipped = 0;  // whose lengths did not fit the model
};

// Which load was asked for.
struct LoadDescription {
  std::string arrivals;             // "poisson", "constant", "burst", "trace", "closed"
  std::optional<double> rate;       // requests a second; open loop; of phases their mean
  std::vector<std::string> phases;  // as --phase writes them
  // Requests a second that the schedule asks for in the mean, second by second from the run's
  // start; open loop.
  std::vector<double> asked_per_s;
  std::optional<int> concurrency;  // closed loop
  std::string batching = "none";   // in the client: "none", "static:N", "serial"
  double duration_s = 0;
  double warmup_s = 0;
  uint64_t seed = 0;
  std::string workload;  // as YAML
  std::optional<TraceDescription> trace;
};

struct Environment {
  std::string date;  // ISO 8601, UTC
  std::string command;
  std::map<std::string, std::string> versions;
  std::map<std::string, std::string> machine;
  std::string target;
  std::string server_version;       // as the server tells it; empty: it does not
  std::vector<std::string> models;  // as the server describes them
};

struct RunReport {
  std::string label;
  bool interrupted = false;
  Environment environment;
  LoadDescription load;
  Slo slo;
  RunSummary summary;
  std::optional<Verification> verification;
  std::optional<ServerSeries> server;
};

// The share of the shortest measured latency's median (first token, else end to end) that p99 of
// the sender's lateness may have: more, and the load generator's own delay shows in the latencies.
inline constexpr double kMostLatenessShare = 0.1;

// A sentence about a sender that was later than that; empty where it was not.
std::string LatenessWarning(const ClassSummary& total);

}  // namespace beamline::loadtest
