#include "client/cli/top/server_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

namespace beamline::cli {
namespace {

using Read = std::function<void(const MetricSample&, ServerState&)>;

void Add(std::optional<double>& sum, double value) { sum = sum.value_or(0) + value; }

ModelState& ModelOf(const MetricSample& sample, ServerState& state) {
  return state.models[sample.Label("model")];
}

void ReadCalls(const MetricSample& sample, ServerState& state) {
  ModelState& model = ModelOf(sample, state);
  model.calls += sample.value;
  if (sample.Label("code") != "OK") model.errors += sample.value;
}

void ReadBlocks(const MetricSample& sample, ServerState& state) {
  ModelState& model = ModelOf(sample, state);
  Add(sample.Label("state") == "used" ? model.used_blocks : model.free_blocks, sample.value);
}

void ReadReplica(const MetricSample& sample, ServerState& state) {
  state.replicas.push_back({sample.Label("model"), sample.Label("version"), sample.Label("replica"),
                            sample.Label("device"), sample.value != 0});
}

Read Count(double ModelState::*count) {
  return [count](const MetricSample& sample, ServerState& state) {
    ModelOf(sample, state).*count += sample.value;
  };
}

Read Gauge(std::optional<double> ModelState::*gauge) {
  return [gauge](const MetricSample& sample, ServerState& state) {
    Add(ModelOf(sample, state).*gauge, sample.value);
  };
}

Read Process(std::optional<double> ServerState::*gauge) {
  return
      [gauge](const MetricSample& sample, ServerState& state) { Add(state.*gauge, sample.value); };
}

const std::map<std::string_view, Read>& Readers() {
  static const auto* const kReaders = new std::map<std::string_view, Read>{
      {"beamline_requests_total", ReadCalls},
      {"beamline_generated_tokens_total", Count(&ModelState::generated_tokens)},
      {"beamline_encoded_tokens_total", Count(&ModelState::encoded_tokens)},
      {"beamline_prompt_tokens_total", Count(&ModelState::prompt_tokens)},
      {"beamline_waiting_requests", Gauge(&ModelState::waiting)},
      {"beamline_running_sequences", Gauge(&ModelState::running)},
      {"beamline_kv_blocks", ReadBlocks},
      {"beamline_replica_up", ReadReplica},
      {"beamline_device_memory_bytes",
       [](const MetricSample& sample, ServerState& state) {
         state.memory[sample.Label("device")][sample.Label("use")] += sample.value;
       }},
      {"beamline_device_memory_unused_bytes",
       [](const MetricSample& sample, ServerState& state) {
         state.unused_memory[sample.Label("device")] += sample.value;
       }},
      {"beamline_rejected_total",
       [](const MetricSample& sample, ServerState& state) { state.rejected += sample.value; }},
      {"beamline_connections_open", Process(&ServerState::connections)},
      {"process_start_time_seconds", Process(&ServerState::start_time)},
      {"process_cpu_seconds_total", Process(&ServerState::cpu_seconds)},
      {"process_resident_memory_bytes", Process(&ServerState::resident_bytes)}};
  return *kReaders;
}

struct HistogramName {
  std::string_view name;
  HistogramState ModelState::*histogram;
};
constexpr HistogramName kHistograms[] = {
    {"beamline_queue_seconds", &ModelState::queue},
    {"beamline_time_to_first_token_seconds", &ModelState::first_token},
    {"beamline_request_duration_seconds", &ModelState::duration},
    {"beamline_batch_sequences", &ModelState::batch}};

// The edge of a bucket; absent if it is not a number.
std::optional<double> EdgeOf(const std::string& text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double edge = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), edge);
  if (parsed.ec != std::errc() || !std::isfinite(edge)) return std::nullopt;
  return edge;
}

void ReadHistogram(const MetricSample& sample, ServerState& state) {
  for (const HistogramName& one : kHistograms) {
    if (!sample.name.starts_with(one.name)) continue;
    const std::string_view part = std::string_view(sample.name).substr(one.name.size());
    HistogramState& histogram = ModelOf(sample, state).*one.histogram;
    if (part == "_sum") histogram.sum += sample.value;
    if (part == "_count") histogram.count += sample.value;
    if (part != "_bucket") continue;
    if (const auto edge = EdgeOf(sample.Label("le"))) histogram.at_most[*edge] += sample.value;
  }
}

// A counter's growth per second; absent if it fell.
std::optional<double> Rate(double before, double now, double seconds) {
  if (seconds <= 0 || now < before) return std::nullopt;
  return (now - before) / seconds;
}

std::optional<double> MeanBetween(const HistogramState& before, const HistogramState& now) {
  const double count = now.count - before.count;
  const double sum = now.sum - before.sum;
  if (count <= 0 || sum < 0) return std::nullopt;
  return sum / count;
}

Quantiles QuantilesBetween(const HistogramState& before, const HistogramState& now) {
  return {QuantileBetween(before, now, 0.5), QuantileBetween(before, now, 0.99)};
}

ModelView CompareModel(const std::string& name, const ModelState* before, const ModelState& now,
                       double seconds) {
  ModelView view{.name = name, .waiting = now.waiting, .running = now.running};
  view.used_blocks = now.used_blocks;
  if (now.used_blocks && now.free_blocks) view.num_blocks = *now.used_blocks + *now.free_blocks;
  if (before == nullptr) return view;
  view.requests_per_s = Rate(before->calls, now.calls, seconds);
  view.errors_per_s = Rate(before->errors, now.errors, seconds);
  view.generated_per_s = Rate(before->generated_tokens, now.generated_tokens, seconds);
  view.encoded_per_s = Rate(before->encoded_tokens, now.encoded_tokens, seconds);
  view.prompt_per_s = Rate(before->prompt_tokens, now.prompt_tokens, seconds);
  view.mean_batch = MeanBetween(before->batch, now.batch);
  view.queue = QuantilesBetween(before->queue, now.queue);
  view.first_token = QuantilesBetween(before->first_token, now.first_token);
  view.duration = QuantilesBetween(before->duration, now.duration);
  return view;
}

}  // namespace

ServerState ReadServerState(const std::vector<MetricSample>& samples) {
  ServerState state;
  for (const MetricSample& sample : samples) {
    const auto reader = Readers().find(sample.name);
    if (reader != Readers().end()) {
      reader->second(sample, state);
    } else {
      ReadHistogram(sample, state);
    }
  }
  return state;
}

std::optional<double> QuantileBetween(const HistogramState& before, const HistogramState& now,
                                      double quantile) {
  const auto grown = [&before](double edge, double count) {
    const auto found = before.at_most.find(edge);
    return count - (found == before.at_most.end() ? 0 : found->second);
  };
  if (now.at_most.empty()) return std::nullopt;
  const double total = grown(now.at_most.rbegin()->first, now.at_most.rbegin()->second);
  if (total <= 0) return std::nullopt;
  double low = 0, below = 0;
  for (const auto& [edge, count] : now.at_most) {
    const double in_all = grown(edge, count);
    if (in_all < below) return std::nullopt;  // the server restarted
    if (in_all >= quantile * total && in_all > below) {
      if (std::isinf(edge)) return low;
      return low + (edge - low) * (quantile * total - below) / (in_all - below);
    }
    low = edge;
    below = in_all;
  }
  return std::nullopt;
}

std::optional<double> ModelView::tokens_per_s() const {
  if (!generated_per_s || !encoded_per_s) return std::nullopt;
  return *generated_per_s + *encoded_per_s;
}

ServerView Compare(const ServerState* before, const ServerState& now, double seconds,
                   double unix_time) {
  ServerView view{.seconds = before == nullptr ? 0 : seconds};
  view.has_restarted = before != nullptr && before->start_time != now.start_time;
  if (view.has_restarted) before = nullptr;
  if (now.start_time) view.uptime_s = std::max(0.0, unix_time - *now.start_time);
  view.resident_bytes = now.resident_bytes;
  view.connections = now.connections;
  if (before != nullptr) {
    view.rejected_per_s = Rate(before->rejected, now.rejected, seconds);
    if (before->cpu_seconds && now.cpu_seconds) {
      view.cpu_share = Rate(*before->cpu_seconds, *now.cpu_seconds, seconds);
    }
  }
  static const ModelState kNothing;
  for (const auto& [name, model] : now.models) {
    const ModelState* old = nullptr;
    if (before != nullptr) {
      const auto found = before->models.find(name);
      old = found == before->models.end() ? &kNothing : &found->second;
    }
    view.models.push_back(CompareModel(name, old, model, seconds));
  }
  view.replicas = now.replicas;
  view.memory = now.memory;
  view.unused_memory = now.unused_memory;
  return view;
}

}  // namespace beamline::cli
