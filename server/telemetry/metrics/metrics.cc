#include "server/telemetry/metrics/metrics.h"

#include <algorithm>
#include <string>

#include "server/telemetry/metrics/build_metrics.h"
#include "server/telemetry/metrics/connection_metrics.h"
#include "server/telemetry/metrics/engine_metrics.h"
#include "server/telemetry/metrics/families.h"
#include "server/telemetry/metrics/http_metrics.h"
#include "server/telemetry/metrics/process_metrics.h"
#include "server/telemetry/metrics/vllm_metrics.h"
#include "spdlog/spdlog.h"

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
  none_->name = "none";
  for (const ModelOptions& model : models) AddModel(model.name);
}

void Metrics::AddModel(const std::string& name) {
  std::lock_guard lock(adding_);
  const size_t count = num_models_;
  const auto known = [&name](const auto& series) { return series->name == name; };
  if (count == models_.size() || std::ranges::any_of(named(), known)) return;
  models_[count] = std::make_unique<ModelSeries>();
  models_[count]->name = name;
  num_models_.store(count + 1, std::memory_order_release);
}

Metrics::ModelSeries& Metrics::Find(std::string_view model) const {
  for (const auto& one : named()) {
    if (one->name == model) return *one;
  }
  return *none_;
}

std::vector<const Metrics::ModelSeries*> Metrics::All() const {
  std::vector<const ModelSeries*> all;
  for (const auto& one : named()) all.push_back(one.get());
  all.push_back(none_.get());
  return all;
}

void Metrics::RecordCall(const CallRecord& record) {
  ModelSeries& model = Find(record.model);
  RpcSeries& rpc = model.rpcs[static_cast<size_t>(record.rpc)];
  rpc.calls[static_cast<size_t>(record.code) % kNumCodes].fetch_add(1, std::memory_order_relaxed);
  rpc.duration.Observe(Seconds(record.duration));
  const Timing& timing = record.timing;
  if (IsInference(record.rpc)) {
    (record.code == absl::StatusCode::kOk ? model.success : model.failure).Add(record.duration);
    model.last_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count());
  }
  if (timing.total.count() == 0) return;
  model.queue_time.Add(timing.queue);
  model.compute_time.Add(timing.total - timing.queue);
  model.queue.Observe(Seconds(timing.queue));
  if (timing.expected_queue.count() >= 0) {
    model.expected_queue.Observe(Seconds(timing.expected_queue));
  }
  if (record.usage.prompt_tokens > 0) model.request_prompt.Observe(record.usage.prompt_tokens);
  if (timing.first_token.count() == 0) return;
  model.first_token.Observe(Seconds(timing.first_token));
  model.prefill.Observe(Seconds(timing.first_token - timing.queue));
  model.request_generated.Observe(record.usage.generated_tokens);
  if (record.usage.generated_tokens > 1) {
    model.inter_token.Observe(Seconds(timing.total - timing.first_token) /
                              (record.usage.generated_tokens - 1));
  }
}

void Metrics::AtomicSum::Add(std::chrono::nanoseconds duration) {
  count.fetch_add(1, std::memory_order_relaxed);
  ns.fetch_add(static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0)),
               std::memory_order_relaxed);
}

ModelTotals Metrics::Totals(std::string_view name) const {
  const ModelSeries& model = Find(name);
  return {model.success.Read(),      model.failure.Read(), model.queue_time.Read(),
          model.compute_time.Read(), model.num_steps,      model.last_ms};
}

void Metrics::RecordRejection(Rejection reason) {
  rejected_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

void Metrics::OnStep(const std::string& name, const StepReport& report) {
  ModelSeries& model = Find(name);
  model.num_steps.fetch_add(1, std::memory_order_relaxed);
  model.steps[static_cast<size_t>(report.phase)].Observe(Seconds(report.duration));
  model.batch_tokens.Observe(report.num_tokens);
  model.batch_sequences.Observe(report.num_sequences);
  if (!spdlog::should_log(spdlog::level::debug)) return;
  spdlog::debug("model '{}' step: {:.2f} ms, {} tokens, {} of prompts, {} sequences", name,
                1e3 * Seconds(report.duration), report.num_tokens, report.num_prompt_tokens,
                report.num_sequences);
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  CollectCalls(families);
  CollectHistograms(families);
  if (const Engine* engine = engine_.load(); engine != nullptr) {
    CollectEngine(*engine, families);
    if (has_vllm_names_) CollectVllm(*engine, families);
  }
  CollectConnections(connections_, families);
  CollectGuard(guard_, families);
  CollectSpans(families);
  CollectMessages(families);
  CollectHttp(http_, families);
  CollectCertificates(families);
  CollectQuotas(families);
  CollectBuildMetrics(families);
  CollectProcessMetrics(families);
  return families;
}

void Metrics::CollectCertificates(std::vector<prometheus::MetricFamily>& families) const {
  auto expires = GaugeFamily("beamline_tls_certificate_expiry_timestamp_seconds",
                             "When the first certificate of a file ends, since the epoch");
  const auto add = [&expires](const char* file, int64_t seconds) {
    if (seconds != 0) AddValue(expires, {{"file", file}}, static_cast<double>(seconds));
  };
  add("server", certificates_.server_expires);
  add("client_ca", certificates_.client_ca_expires);
  families.push_back(std::move(expires));
}

void Metrics::CollectQuotas(std::vector<prometheus::MetricFamily>& families) const {
  auto tokens = CounterFamily("beamline_quota_tokens_total", "Tokens charged to quotas");
  AddValue(tokens, {{"outcome", "used"}}, static_cast<double>(quotas_.used_tokens.load()));
  AddValue(tokens, {{"outcome", "refused"}}, static_cast<double>(quotas_.refused_tokens.load()));
  families.push_back(std::move(tokens));
  auto clients = GaugeFamily("beamline_quota_clients", "Clients whose quotas are not full");
  AddValue(clients, {}, static_cast<double>(quotas_.clients.load()));
  families.push_back(std::move(clients));
}

void Metrics::CollectMessages(std::vector<prometheus::MetricFamily>& families) const {
  auto unfinished = GaugeFamily("beamline_unfinished_requests",
                                "Calls that have begun and whose request is not whole");
  AddValue(unfinished, {{"state", "reading"}}, static_cast<double>(messages_.reading.load()));
  AddValue(unfinished, {{"state", "waiting"}}, static_cast<double>(messages_.waiting.load()));
  AddValue(unfinished, {{"state", "streams"}}, static_cast<double>(messages_.streams.load()));
  families.push_back(std::move(unfinished));
  auto bytes =
      GaugeFamily("beamline_unfinished_bytes", "Kept of requests that are not whole, an estimate");
  AddValue(bytes, {}, static_cast<double>(messages_.bytes.load()));
  families.push_back(std::move(bytes));
  auto late = CounterFamily("beamline_late_requests_total",
                            "Calls that were ended as their request was not whole");
  AddValue(late, {}, static_cast<double>(messages_.late.load()));
  families.push_back(std::move(late));
}

void Metrics::CollectSpans(std::vector<prometheus::MetricFamily>& families) const {
  auto spans = CounterFamily("beamline_spans_total", "Spans of traced requests");
  AddValue(spans, {{"outcome", "exported"}}, static_cast<double>(spans_.exported.load()));
  AddValue(spans, {{"outcome", "dropped"}}, static_cast<double>(spans_.dropped.load()));
  families.push_back(std::move(spans));
}

void Metrics::CollectCalls(std::vector<prometheus::MetricFamily>& families) const {
  auto calls = CounterFamily("beamline_requests_total", "Calls that are over");
  auto durations =
      MakeFamily("beamline_request_duration_seconds", "From a call's arrival to its last byte",
                 prometheus::MetricType::Histogram);
  for (const ModelSeries* model : All()) {
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
      {"beamline_expected_queue_seconds", "As it was expected when the request came",
       &ModelSeries::expected_queue},
      {"beamline_prefill_seconds", "From the first step to the first token", &ModelSeries::prefill},
      {"beamline_batch_tokens", "Tokens of one step", &ModelSeries::batch_tokens},
      {"beamline_batch_sequences", "Sequences of one step", &ModelSeries::batch_sequences},
      {"beamline_request_prompt_tokens", "Tokens of a request's prompt or inputs",
       &ModelSeries::request_prompt},
      {"beamline_request_generated_tokens", "Tokens of a request's answer",
       &ModelSeries::request_generated},
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
    for (const ModelSeries* model : All()) {
      add(family, {{"model", model->name}}, (*model).*(row.histogram));
    }
    families.push_back(std::move(family));
  }
  auto steps = MakeFamily("beamline_step_seconds", "Duration of one step",
                          prometheus::MetricType::Histogram);
  for (const ModelSeries* model : All()) {
    for (size_t i = 0; i < kNumPhases; ++i) {
      add(steps, {{"model", model->name}, {"phase", std::string(kPhaseNames[i])}}, model->steps[i]);
    }
  }
  families.push_back(std::move(steps));
}

}  // namespace beamline
