// The server's metrics, and the content of /metrics. Recording does not lock: the series of all
// models and RPCs are in arrays, allocated when a model is added.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/engine.h"
#include "prometheus/collectable.h"
#include "server/guard/guard_stats.h"
#include "server/net/connection_stats.h"
#include "server/security/certificate_stats.h"
#include "server/security/quota_stats.h"
#include "server/telemetry/call_record.h"
#include "server/telemetry/metrics/histogram.h"
#include "server/telemetry/metrics/http_stats.h"
#include "server/telemetry/metrics/message_stats.h"
#include "server/telemetry/metrics/span_stats.h"

namespace beamline {

// Why a call was refused: values of the label `reason`.
enum class Rejection : uint8_t {
  kOverload,         // max_concurrent_requests calls run
  kQueueFull,        // max_queued_requests wait for the model
  kQueuedTokens,     // its tokens and the waiting ones exceed max_queued_tokens
  kDeadline,         // it would miss its deadline
  kQuota,            // its client has used up its token quota
  kDraining,         // the server is stopping
  kDeviceFault,      // the model's device has failed
  kNotReady,         // the model is being loaded or unloaded
  kUnauthenticated,  // unknown or missing credentials
  kPermissionDenied  // the caller has no permission for this call
};
inline constexpr std::array<std::string_view, 10> kRejectionNames = {
    "overload", "queue_full",   "queued_tokens", "deadline",        "quota",
    "draining", "device_fault", "not_ready",     "unauthenticated", "permission_denied"};

// Totals of a model's requests since the start, over all versions.
struct ModelTotals {
  struct Sum {
    uint64_t count = 0;
    uint64_t ns = 0;
  };
  Sum success;  // from arrival to the last byte
  Sum failure;
  Sum queue;    // of computed requests: until the first step
  Sum compute;  // of computed requests: from the first step on
  uint64_t steps = 0;
  uint64_t last_ms = 0;  // end of the last request, since 1970; 0: none
};

class Metrics : public EngineObserver, public prometheus::Collectable {
 public:
  // Limit of names with their own series. Calls to further models are counted under "none".
  static constexpr size_t kMostModels = 1024;

  explicit Metrics(const std::vector<ModelOptions>& models);

  // Makes the series of this name, unless they exist. Series are never removed, so that counters do
  // not go back when a model is loaded again.
  void AddModel(const std::string& name);
  void RecordCall(const CallRecord& record);
  void RecordRejection(Rejection reason);
  void OnStep(const std::string& model, const StepReport& report) override;
  // A model without its own series has those of "none".
  ModelTotals Totals(std::string_view model) const;

  // The engine for the gauges; null: the gauges are left out.
  void SetEngine(const Engine* engine) { engine_ = engine; }
  // From now on some gauges are also exported under vLLM's names.
  void AddVllmNames() { has_vllm_names_ = true; }
  std::vector<prometheus::MetricFamily> Collect() const override;
  // Written by the acceptor.
  ConnectionStats& connections() { return connections_; }
  // Written by the server when it starts.
  GuardStats& guard() { return guard_; }
  // Written by the exporter of spans.
  SpanStats& spans() { return spans_; }
  // Written by the HTTP listener, if there is one.
  HttpStats& http() { return http_; }
  // Written by the certificate reader, if TLS is on.
  CertificateStats& certificates() { return certificates_; }
  // Written by the quotas, if there are any.
  QuotaStats& quotas() { return quotas_; }
  // Written by the message budget.
  MessageStats& messages() { return messages_; }

 private:
  static constexpr size_t kNumCodes = 17;
  static constexpr size_t kNumPhases = 4;

  struct RpcSeries {
    std::array<std::atomic<uint64_t>, kNumCodes> calls{};
    Histogram duration{LatencyEdges()};
  };
  struct AtomicSum {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> ns{0};
    void Add(std::chrono::nanoseconds duration);
    ModelTotals::Sum Read() const { return {count, ns}; }
  };
  struct ModelSeries {
    std::string name;
    AtomicSum success, failure, queue_time, compute_time;
    std::atomic<uint64_t> num_steps{0};
    std::atomic<uint64_t> last_ms{0};
    std::array<RpcSeries, kRpcNames.size()> rpcs;
    Histogram first_token{LatencyEdges()};
    Histogram inter_token{LatencyEdges()};
    Histogram queue{LatencyEdges()};
    Histogram expected_queue{LatencyEdges()};
    Histogram prefill{LatencyEdges()};
    std::array<Histogram, kNumPhases> steps{Histogram(LatencyEdges()), Histogram(LatencyEdges()),
                                            Histogram(LatencyEdges()), Histogram(LatencyEdges())};
    Histogram batch_tokens{SizeEdges()};
    Histogram batch_sequences{SizeEdges()};
    Histogram request_prompt{TokenEdges()};
    Histogram request_generated{TokenEdges()};
  };

  std::span<const std::unique_ptr<ModelSeries>> named() const {
    return std::span(models_).first(num_models_.load(std::memory_order_acquire));
  }
  // All named series, then "none".
  std::vector<const ModelSeries*> All() const;
  ModelSeries& Find(std::string_view model) const;
  void CollectCertificates(std::vector<prometheus::MetricFamily>& families) const;
  void CollectQuotas(std::vector<prometheus::MetricFamily>& families) const;
  void CollectMessages(std::vector<prometheus::MetricFamily>& families) const;
  void CollectSpans(std::vector<prometheus::MetricFamily>& families) const;
  void CollectCalls(std::vector<prometheus::MetricFamily>& families) const;
  void CollectHistograms(std::vector<prometheus::MetricFamily>& families) const;

  std::mutex adding_;
  std::array<std::unique_ptr<ModelSeries>, kMostModels> models_;  // the first num_models_ are set
  std::atomic<size_t> num_models_ = 0;
  const std::unique_ptr<ModelSeries> none_ = std::make_unique<ModelSeries>();
  std::array<std::atomic<uint64_t>, kRejectionNames.size()> rejected_{};
  std::atomic<const Engine*> engine_{nullptr};
  std::atomic<bool> has_vllm_names_{false};
  ConnectionStats connections_;
  GuardStats guard_;
  SpanStats spans_;
  HttpStats http_;
  CertificateStats certificates_;
  QuotaStats quotas_;
  MessageStats messages_;
};

}  // namespace beamline
