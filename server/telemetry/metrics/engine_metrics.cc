#include "server/telemetry/metrics/engine_metrics.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/telemetry/metrics/families.h"

namespace beamline {
namespace {

using prometheus::MetricFamily;

// Series with the model's name as the only label.
struct Row {
  MetricFamily family;
  double (*value)(const ModelStats&);
};

std::vector<Row> MakeRows() {
  return {
      {CounterFamily("beamline_generated_tokens_total", "Tokens generated"),
       [](const ModelStats& s) { return static_cast<double>(s.generated_tokens); }},
      {CounterFamily("beamline_encoded_tokens_total", "Tokens of inputs that were embedded"),
       [](const ModelStats& s) { return static_cast<double>(s.encoded_tokens); }},
      {GaugeFamily("beamline_running_sequences", "Sequences in the running batch"),
       [](const ModelStats& s) { return static_cast<double>(s.running_sequences); }},
      {GaugeFamily("beamline_waiting_requests", "Requests accepted and not yet running"),
       [](const ModelStats& s) { return static_cast<double>(s.waiting_requests); }},
      {GaugeFamily("beamline_waiting_tokens", "Tokens that the waiting requests bring"),
       [](const ModelStats& s) { return static_cast<double>(s.waiting_tokens); }},
      {GaugeFamily("beamline_oldest_waiting_seconds", "Since the first waiting request came"),
       [](const ModelStats& s) { return s.oldest_waiting_seconds; }},
      {GaugeFamily("beamline_expected_wait_seconds",
                   "How long a request behind all that wait would wait; 0: not known"),
       [](const ModelStats& s) { return s.expected_queue_seconds; }},
      {CounterFamily("beamline_hopeless_total",
                     "Requests ended before a step as their deadline was too near"),
       [](const ModelStats& s) { return static_cast<double>(s.hopeless); }},
      {CounterFamily("beamline_cancelled_total", "Requests cancelled"),
       [](const ModelStats& s) { return static_cast<double>(s.cancelled); }},
      {CounterFamily("beamline_reruns_total", "Requests begun again when their replica had failed"),
       [](const ModelStats& s) { return static_cast<double>(s.rerun); }},
      {CounterFamily("beamline_preemptions_total", "Sequences put back for want of blocks"),
       [](const ModelStats& s) { return static_cast<double>(s.preemptions); }},
      {CounterFamily("beamline_prefix_cache_hit_tokens_total", "Prompt tokens found in the cache"),
       [](const ModelStats& s) { return static_cast<double>(s.cached_prompt_tokens); }},
  };
}

// Series with more labels.
struct Families {
  MetricFamily blocks = GaugeFamily("beamline_kv_blocks", "Blocks of the key/value cache");
  MetricFamily prompt =
      CounterFamily("beamline_prompt_tokens_total", "Prompt tokens of generation");
  MetricFamily speculative =
      CounterFamily("beamline_speculative_tokens_total", "Tokens that were guessed");
  MetricFamily memory =
      GaugeFamily("beamline_device_memory_bytes", "Device memory that a model holds");
  MetricFamily unused = GaugeFamily("beamline_device_memory_unused_bytes",
                                    "Device memory taken at start that no model holds");
  MetricFamily info = GaugeFamily("beamline_model_info", "1 for each model that is loaded");
  MetricFamily up = GaugeFamily("beamline_replica_up", "Whether a replica can answer");
  MetricFamily restarting =
      GaugeFamily("beamline_replica_restarting", "Whether a replica is being loaded anew");
  MetricFamily restarts =
      CounterFamily("beamline_replica_restarts_total", "Times that a replica was loaded anew");
  MetricFamily steps =
      CounterFamily("beamline_replica_steps_total", "Steps that a replica computed since its load");
  MetricFamily wait = GaugeFamily("beamline_replica_expected_wait_seconds",
                                  "How long a request that comes now would wait at a replica");
};

void AddCounts(const std::string& name, const ModelStats& stats, Families& to) {
  AddValue(to.prompt, {{"model", name}, {"source", "computed"}},
           static_cast<double>(stats.prompt_tokens));
  AddValue(to.prompt, {{"model", name}, {"source", "cached"}},
           static_cast<double>(stats.cached_prompt_tokens));
  AddValue(to.speculative, {{"model", name}, {"outcome", "proposed"}},
           static_cast<double>(stats.speculative_proposed));
  AddValue(to.speculative, {{"model", name}, {"outcome", "accepted"}},
           static_cast<double>(stats.speculative_accepted));
  if (stats.total_blocks == 0) return;
  AddValue(to.blocks, {{"model", name}, {"state", "used"}}, static_cast<double>(stats.used_blocks));
  AddValue(to.blocks, {{"model", name}, {"state", "free"}},
           static_cast<double>(stats.total_blocks - stats.used_blocks));
}

// Replicas of a name on the same device share one sample of memory. `divided`: devices that are in
// to.unused already.
void AddReplicas(const std::string& name, const ModelStats& stats, std::set<std::string>& divided,
                 Families& to) {
  std::map<std::pair<std::string, std::string>, size_t> bytes;  // by device and use
  for (const ReplicaState& replica : stats.replicas) {
    const MetricLabels labels = {{"model", name},
                                 {"replica", fmt::to_string(replica.replica)},
                                 {"device", replica.device},
                                 {"version", fmt::to_string(replica.version)}};
    AddValue(to.up, labels, replica.can_answer ? 1 : 0);
    AddValue(to.restarting, labels, replica.phase == ReplicaPhase::kRestarting ? 1 : 0);
    AddValue(to.restarts, labels, static_cast<double>(replica.restarts));
    AddValue(to.steps, labels, static_cast<double>(replica.steps));
    AddValue(to.wait, labels, replica.expected_wait_seconds);
    for (const MemoryUse& use : replica.memory) bytes[{replica.device, use.name}] += use.bytes;
    if (replica.unused_device_bytes.has_value() && divided.insert(replica.device).second) {
      AddValue(to.unused, {{"device", replica.device}},
               static_cast<double>(*replica.unused_device_bytes));
    }
  }
  for (const auto& [of, held] : bytes) {
    AddValue(to.memory, {{"device", of.first}, {"model", name}, {"use", of.second}},
             static_cast<double>(held));
  }
}

}  // namespace

void CollectEngine(const Engine& engine, std::vector<MetricFamily>& families) {
  std::vector<Row> rows = MakeRows();
  Families more;
  std::set<std::string> names, divided;
  for (const ModelInfo& model : engine.Models()) {
    if (model.state != ModelState::kReady && model.state != ModelState::kDraining) continue;
    AddValue(more.info,
             {{"model", model.name},
              {"architecture", model.architecture},
              {"device", model.device},
              {"version", fmt::to_string(model.version)}},
             1);
    if (!names.insert(model.name).second) continue;
    const auto stats = engine.Stats(model.name);
    if (!stats.ok()) continue;  // the model was unloaded meanwhile
    for (auto& [family, value] : rows) AddValue(family, {{"model", model.name}}, value(*stats));
    AddCounts(model.name, *stats, more);
    AddReplicas(model.name, *stats, divided, more);
  }
  for (Row& row : rows) families.push_back(std::move(row.family));
  for (MetricFamily* family :
       {&more.blocks, &more.prompt, &more.speculative, &more.memory, &more.unused, &more.info,
        &more.up, &more.restarting, &more.restarts, &more.steps, &more.wait}) {
    families.push_back(std::move(*family));
  }
}

}  // namespace beamline
