// All results of a run; they are printed, written to JSON and compared.
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

// Requests of one class of the workload, or of all classes. Latencies are in nanoseconds and only
// of successful requests, because cancelled and failed ones would improve them.
struct ClassSummary {
  std::string name;
  std::string kind;
  std::map<std::string, int64_t> endings;  // by EndingName
  std::map<std::string, int64_t> codes;    // by status code
  int64_t num_items = 0;                   // of successful requests
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t good = 0;  // meet all objectives
  Histogram time_to_first_token;
  Histogram inter_token;            // between successive messages with tokens
  Histogram time_per_output_token;  // one value per request
  Histogram end_to_end;
  Histogram lateness;  // send delay of all requests

  int64_t Count(Ending ending) const;
  int64_t NumRequests() const;
  void Merge(const ClassSummary& other);
};

struct Verification {
  int64_t num_checked = 0;
  int64_t num_mismatches = 0;
  std::vector<std::string> examples;  // the first few mismatches
};

// Failures with one status code.
struct ErrorSummary {
  int64_t count = 0;
  std::vector<std::string> messages;  // the first few different messages, one line each
};

// Figures computed by the Recorder.
struct RunSummary {
  std::vector<ClassSummary> classes;
  ClassSummary total;
  double sending_s = 0;  // from the first to the last request sent after the warm-up
  double elapsed_s = 0;  // from the end of the warm-up to the last answer
  int64_t num_warmup = 0;
  // Successful requests that ended between the end of the warm-up and the end of sending, even if
  // sent earlier.
  int64_t num_answered_in_time = 0;
  std::vector<std::string> error_examples;
  std::map<std::string, ErrorSummary> errors;  // by status code; failures only
  std::vector<Second> seconds;                 // from the run's start, including warm-up

  double AchievedRate() const;  // requests sent per second
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
  int64_t num_clipped = 0;  // requests whose lengths did not fit the model
};

// The requested load.
struct LoadDescription {
  std::string arrivals;             // "poisson", "constant", "burst", "trace", "closed"
  std::optional<double> rate;       // requests per second of an open loop; the mean over phases
  std::vector<std::string> phases;  // in the syntax of --phase
  // Open loop: the mean rate in the schedule, for each second since the run's start.
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
  std::string server_version;       // as the server reports it; empty: not reported
  std::vector<std::string> models;  // from ListModels
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

// Largest accepted p99 of the send delay, as a share of the shortest latency's median (first token,
// else end to end). Above it the load generator's own delay affects the latencies.
inline constexpr double kMostLatenessShare = 0.1;

// A warning if the send delay exceeds that share; else empty.
std::string LatenessWarning(const ClassSummary& total);

}  // namespace beamline::loadtest
