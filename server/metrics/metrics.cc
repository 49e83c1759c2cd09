#include "server/metrics/metrics.h"

#include <set>
#include <string>

#include "server/metrics/connection_metrics.h"
#include "server/metrics/families.h"
#include "server/metrics/process_metrics.h"

namespace beamline {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames = {"prefill", "decode", "mixed", "encode"};

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string CodeName(size_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace

Metrics::Metrics(const std::vector<ModelOptions>& models) {
  for (const ModelOptions& model : models) {
    models_.push_back(std::make_unique<ModelSeries>());
    models_.back()->name = model.name;
  }
  models_.push_back(std::make_unique<ModelSeries>());
  models_.back()->name = "none";
}

Metrics::ModelSeries& Metrics::Find(std::string_view model) const {
  for (const auto& series : models_) {
    if (series->name == model) return *series;
  }
  return *models_.back();
}

void Metrics::RecordCall(const CallRecord& record) {
  ModelSeries& model = Find(record.model);
  RpcSeries& rpc = model.rpcs[static_cast<size_t>(record.rpc)];
  rpc.calls[static_cast<size_t>(record.code) % kNumCodes].fetch_add(1, std::memory_order_relaxed);
  rpc.duration.Observe(Seconds(record.duration));
  const Timing& timing = record.timing;
  if (timing.total.count() == 0) return;
  model.queue.Observe(Seconds(timing.queue));
  if (timing.first_token.count() == 0) return;
  model.first_token.Observe(Seconds(timing.first_token));
  model.prefill.Observe(Seconds(timing.first_token - timing.queue));
  if (record.generated_tokens > 1) {
    model.inter_token.Observe(Seconds(timing.total - timing.first_token) /
                              (record.generated_tokens - 1));
  }
}

void Metrics::RecordRejection(Rejection reason) {
  rejected_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void Metrics::OnStep(const std::string& name, const StepReport& report) {
  ModelSeries& model = Find(name);
  model.steps[static_cast<size_t>(report.phase)].Observe(Seconds(report.duration));
  model.batch_tokens.Observe(report.num_tokens);
  model.batch_sequences.Observe(report.num_sequences);
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  CollectCalls(families);
  CollectHistograms(families);
  CollectEngine(families);
  CollectConnections(connections_, families);
  CollectProcessMetrics(families);
  return families;
}

void Metrics::CollectCalls(std::vector<prometheus::MetricFamily>& families) const {
  auto calls = CounterFamily("beamline_requests_total", "Calls that are over");
  auto durations =
      MakeFamily("beamline_request_duration_seconds", "From a call's arrival to its last byte",
                 prometheus::MetricType::Histogram);
  for (const auto& model : models_) {
    for (size_t i = 0; i < kRpcNames.size(); ++i) {
      const RpcSeries& rpc = model->rpcs[i];
      const MetricLabels labels = {{"rpc", std::string(kRpcNames[i])}, {"model", model->name}};
      bool used = false;
      for (size_t code = 0; code < kNumCodes; ++code) {
        const uint64_t count = rpc.calls[code].load(std::memory_order_relaxed);
        if (count == 0) continue;
        used = true;
        MetricLabels with_code = labels;
        with_code.push_back({"code", CodeName(code)});
        AddValue(calls, std::move(with_code), static_cast<double>(count));
      }
      if (!used) continue;
      prometheus::ClientMetric metric;
      metric.label = labels;
      metric.histogram = rpc.duration.Snapshot();
      durations.metric.push_back(std::move(metric));
    }
  }
  auto rejected = CounterFamily("beamline_rejected_total", "Calls refused before any work");
  for (size_t i = 0; i < rejected_.size(); ++i) {
    AddValue(rejected, {{"reason", std::string(kRejectionNames[i])}},
             static_cast<double>(rejected_[i].load(std::memory_order_relaxed)));
  }
  families.push_back(std::move(calls));
  families.push_back(std::move(durations));
  families.push_back(std::move(rejected));
}

void Metrics::CollectHistograms(std::vector<prometheus::MetricFamily>& families) const {
  struct Row {
    const char* name;
    const char* help;
    Histogram ModelSeries::*histogram;
  };
  static constexpr Row kRows[] = {
      {"beamline_time_to_first_token_seconds", "From acceptance to the first token",
       &ModelSeries::first_token},
      {"beamline_inter_token_seconds", "Mean time between the tokens of one request",
       &ModelSeries::inter_token},
      {"beamline_queue_seconds", "From acceptance to the first step", &ModelSeries::queue},
      {"beamline_prefill_seconds", "From the first step to the first token", &ModelSeries::prefill},
      {"beamline_batch_tokens", "Tokens of one step", &ModelSeries::batch_tokens},
      {"beamline_batch_sequences", "Sequences of one step", &ModelSeries::batch_sequences},
  };
  const auto add = [](prometheus::MetricFamily& family, MetricLabels labels,
                      const Histogram& histogram) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram = histogram.Snapshot();
    if (metric.histogram.sample_count > 0) family.metric.push_back(std::move(metric));
  };
  for (const Row& row : kRows) {
    auto family = MakeFamily(row.name, row.help, prometheus::MetricType::Histogram);
    for (const auto& model : models_) {
      add(family, {{"model", model->name}}, (*model).*(row.histogram));
    }
    families.push_back(std::move(family));
  }
  auto steps = MakeFamily("beamline_step_seconds", "Duration of one step",
                          prometheus::MetricType::Histogram);
  for (const auto& model : models_) {
    for (size_t i = 0; i < kNumPhases; ++i) {
      add(steps, {{"model", model->name}, {"phase", std::string(kPhaseNames[i])}}, model->steps[i]);
    }
  }
  families.push_back(std::move(steps));
}

void Metrics::CollectEngine(std::vector<prometheus::MetricFamily>& families) const {
  const Engine* engine = engine_.load();
  if (engine == nullptr) return;
  auto blocks = GaugeFamily("beamline_kv_blocks", "Blocks of the key/value cache");
  auto prompt = CounterFamily("beamline_prompt_tokens_total", "Prompt tokens of generation");
  auto speculative = CounterFamily("beamline_speculative_tokens_total", "Tokens that were guessed");
  auto info = GaugeFamily("beamline_model_info", "1 for each model that is loaded");
  auto memory = GaugeFamily("beamline_device_memory_bytes", "Device memory that a model holds");
  auto unused = GaugeFamily("beamline_device_memory_unused_bytes",
                            "Device memory taken at start that no model holds");
  std::set<std::string> divided_devices;  // that are in `unused`
  auto up = GaugeFamily("beamline_replica_up", "Whether a replica can answer");
  std::vector<std::pair<prometheus::MetricFamily, double (*)(const ModelStats&)>> rows;
  const auto row = [&rows](prometheus::MetricFamily family, double (*value)(const ModelStats&)) {
    rows.emplace_back(std::move(family), value);
  };
  row(CounterFamily("beamline_generated_tokens_total", "Tokens generated"),
      [](const ModelStats& s) { return static_cast<double>(s.generated_tokens); });
  row(CounterFamily("beamline_encoded_tokens_total", "Tokens of inputs that were embedded"),
      [](const ModelStats& s) { return static_cast<double>(s.encoded_tokens); });
  row(GaugeFamily("beamline_running_sequences", "Sequences in the running batch"),
      [](const ModelStats& s) { return static_cast<double>(s.running_sequences); });
  row(GaugeFamily("beamline_waiting_requests", "Requests accepted and not yet running"),
      [](const ModelStats& s) { return static_cast<double>(s.waiting_requests); });
  row(CounterFamily("beamline_cancelled_total", "Requests cancelled"),
      [](const ModelStats& s) { return static_cast<double>(s.cancelled); });
  row(CounterFamily("beamline_preemptions_total", "Sequences put back for want of blocks"),
      [](const ModelStats& s) { return static_cast<double>(s.preemptions); });
  row(CounterFamily("beamline_prefix_cache_hit_tokens_total", "Prompt tokens found in the cache"),
      [](const ModelStats& s) { return static_cast<double>(s.cached_prompt_tokens); });
  for (const ModelInfo& model : engine->Models()) {
    const auto stats = engine->Stats(model.name);
    if (!stats.ok()) continue;
    AddValue(
        info,
        {{"model", model.name}, {"architecture", model.architecture}, {"device", model.device}}, 1);
    AddValue(up, {{"model", model.name}, {"replica", "0"}, {"device", model.device}},
             stats->can_answer ? 1 : 0);
    for (auto& [family, value] : rows) AddValue(family, {{"model", model.name}}, value(*stats));
    AddValue(prompt, {{"model", model.name}, {"source", "computed"}},
             static_cast<double>(stats->prompt_tokens));
    AddValue(prompt, {{"model", model.name}, {"source", "cached"}},
             static_cast<double>(stats->cached_prompt_tokens));
    AddValue(speculative, {{"model", model.name}, {"outcome", "proposed"}},
             static_cast<double>(stats->speculative_proposed));
    AddValue(speculative, {{"model", model.name}, {"outcome", "accepted"}},
             static_cast<double>(stats->speculative_accepted));
    for (const MemoryUse& use : stats->memory) {
      AddValue(memory, {{"device", model.device}, {"model", model.name}, {"use", use.name}},
               static_cast<double>(use.bytes));
    }
    if (stats->unused_device_bytes.has_value() && divided_devices.insert(model.device).second) {
      AddValue(unused, {{"device", model.device}},
               static_cast<double>(*stats->unused_device_bytes));
    }
    if (stats->total_blocks == 0) continue;
    AddValue(blocks, {{"model", model.name}, {"state", "used"}},
             static_cast<double>(stats->used_blocks));
    AddValue(blocks, {{"model", model.name}, {"state", "free"}},
             static_cast<double>(stats->total_blocks - stats->used_blocks));
  }
  for (auto& [family, value] : rows) families.push_back(std::move(family));
  for (auto* family : {&blocks, &prompt, &speculative, &memory, &unused, &info, &up}) {
    families.push_back(std::move(*family));
  }
}

}  // namespace beamline
