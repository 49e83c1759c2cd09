// The command line of beamline-loadtest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connection_flags.h"
#include "loadtest/report/record.h"
#include "loadtest/workload/workload.h"

namespace CLI {
class App;
}

namespace beamline::loadtest {

// Describes one class of requests, or several that differ only in kind. A workload file can express
// more.
struct RequestFlags {
  std::vector<std::string> kinds;  // "KIND" or "KIND=WEIGHT"
  std::string model;
  std::optional<std::string> text;
  std::string jsonl;
  std::string words;
  std::string tokens;
  int64_t shared = 0;
  int batch = 1;
  std::string max_new_tokens;
  std::string beam_width;
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  bool ignore_eos = false;
  double cancel_share = 0;
  std::string cancel_after_ms;
  double deadline_share = 0;
  std::string deadline_ms;
};

struct RunFlags {
  std::string target = "127.0.0.1:50051";
  bool allow_remote = false;
  ConnectionFlags connection;
  std::string arrivals = "poisson";
  double rate = 10;
  std::vector<std::string> phases;  // replaces rate and duration_s; parsed by ParseRatePhase
  int burst_size = 10;
  std::string batching = "none";
  int concurrency = 0;  // closed loop when > 0
  double duration_s = 10;
  double warmup_s = 0;
  uint64_t num_requests = 0;
  uint64_t seed = 1;
  int num_connections = 1;
  int num_clients = 0;  // round-robin client ids of the requests; 0: none
  int num_threads = 1;
  int max_in_flight = 10'000;
  double timeout_s = 60;
  double drain_s = 30;
  std::string workload_file;
  RequestFlags requests;
  uint64_t num_distinct = 0;
  bool verify = false;
  double verify_tolerance = 1e-4;
  std::vector<std::string> expected_codes;
  Slo slo;
  std::string label;
  std::string json_file;
  std::string html_file;
  std::string csv_file;
  std::string log_file;
  std::string trace_file;  // replaces the rate and the requests' lengths
  double trace_speed = 1;
  std::string trace_lengths = "refuse";  // or "clip"
  std::string record_trace_file;
  std::string metrics_url;
  std::string plan_file;  // `plan` only; empty: standard output
};

// Flags of `find-rate`: the load of its probes (as `run`, without flags that set a rate), limits
// and search range.
struct FindRateFlags {
  FindRateFlags() { run.warmup_s = 2; }

  RunFlags run;                     // duration_s: minimum per probe
  std::vector<std::string> limits;  // parsed by ParseObjective
  double min_rate = 1;
  double max_rate = 10'000;
  double growth = 2;
  int tries = 2;
  double precision = 0.05;
  int64_t min_requests = 50;
  double settle_s = 1;
  double max_time_s = 900;
  double max_error_share = 0.001;
  double max_lateness_ms = 20;
  double min_answered_share = 0.9;
};

struct CompareFlags {
  std::vector<std::string> files;
  std::string plot_file;
  std::optional<double> threshold_percent;
};

void AddRunFlags(CLI::App& app, RunFlags& flags);
// The flags of `run` that decide what is sent when, and the plan's file.
void AddPlanFlags(CLI::App& app, RunFlags& flags);
void AddFindRateFlags(CLI::App& app, FindRateFlags& flags);
void AddCompareFlags(CLI::App& app, CompareFlags& flags);

// The workload that the flags or the workload file describe.
absl::StatusOr<Workload> LoadWorkload(const RunFlags& flags);

}  // namespace beamline::loadtest
