// The state of a server, read from its metrics, and the difference between two states.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/metrics/exposition.h"

namespace beamline::cli {

// Cumulative counts per bucket edge, as in Prometheus.
struct HistogramState {
  std::map<double, double> at_most;  // by edge; the last edge is infinity
  double sum = 0;
  double count = 0;
};

struct ModelState {
  double calls = 0, errors = 0;
  double generated_tokens = 0, encoded_tokens = 0, prompt_tokens = 0;
  std::optional<double> waiting, running, used_blocks, free_blocks;
  HistogramState queue, first_token, duration, batch;
};

struct ReplicaState {
  std::string model, version, replica, device;
  bool is_up = false;
};

struct ServerState {
  std::map<std::string, ModelState> models;  // by name; "none": calls without a model
  std::vector<ReplicaState> replicas;
  std::map<std::string, std::map<std::string, double>> memory;  // bytes by device and use
  std::map<std::string, double> unused_memory;                  // bytes by device
  double rejected = 0;
  std::optional<double> start_time, cpu_seconds, resident_bytes, connections;
};

ServerState ReadServerState(const std::vector<MetricSample>& samples);

// Seconds; absent if nothing was observed.
struct Quantiles {
  std::optional<double> p50, p99;
};

// One model's figures over the time between two states. A value is absent if the server does not
// report it or a counter fell.
struct ModelView {
  std::string name;
  std::optional<double> requests_per_s, errors_per_s;
  std::optional<double> generated_per_s, encoded_per_s, prompt_per_s;  // tokens
  std::optional<double> waiting, running, used_blocks, num_blocks;
  std::optional<double> mean_batch;  // sequences per step
  Quantiles queue, first_token, duration;

  std::optional<double> tokens_per_s() const;
};

struct ServerView {
  double seconds = 0;  // between the states; 0: only one state
  bool has_restarted = false;
  std::optional<double> uptime_s, cpu_share, resident_bytes, connections, rejected_per_s;
  std::vector<ModelView> models;  // by name
  std::vector<ReplicaState> replicas;
  std::map<std::string, std::map<std::string, double>> memory;
  std::map<std::string, double> unused_memory;
};

// `before` null: only figures of a single state. `unix_time`: the time of `now`, to compute the
// uptime. If the server restarted in between, there are no rates.
ServerView Compare(const ServerState* before, const ServerState& now, double seconds,
                   double unix_time);

// The quantile of the observations between two states, interpolated within its bucket as in
// Prometheus; beyond the last finite edge, that edge.
std::optional<double> QuantileBetween(const HistogramState& before, const HistogramState& now,
                                      double quantile);

}  // namespace beamline::cli
