// What the server measures, and its answer to a scrape of /metrics. Recording never takes a lock:
// every series lies in arrays made when its model comes, by model and RPC.
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
#include "server/accept/connection_stats.h"
#include "server/metrics/histogram.h"
#include "server/metrics/http_stats.h"
#include "server/metrics/message_stats.h"
#include "server/security/certificate_stats.h"
#include "server/security/quota_stats.h"
#include "server/telemetry/call_record.h"
#include "server/tracing/span_stats.h"

namespace beamline {

// Why a call was refused before any work: label values of `reason`.
enum class Rejection : uint8_t {
  kOverload,         // max_concurrent_requests calls run
  kQueueFull,        // max_queued_requests wait for the model
  kQueuedTokens,     // its tokens beside those that wait are more than max_queued_tokens
  kDeadline,         // it would be answered too late
  kQuota,            // its client has used its quota of tokens
  kDraining,         // the server is about to stop
  kDeviceFault,      // the model's device has failed
  kNotReady,         // the model is being loaded or unloaded
  kUnauthenticated,  // the caller is nobody whom the server knows
  kPermissionDenied  // the caller may not call this
};
inline constexpr std::array<std::string_view, 10> kRejectionNames = {
    "overload", "queue_full",   "queued_tokens", "deadline",        "quota",
    "draining", "device_fault", "not_ready",     "unauthenticated", "permission_denied"};

// What became of a model's requests since the start, of all versions together.
struct ModelTotals {
  struct Sum {
    uint64_t count = 0;
    uint64_t ns = 0;
  };
  Sum success;  // from arrival to the last byte
  Sum failure;
  Sum queue;    // of those whose answer was computed, until the first step
  Sum compute;  // and from there on
  uint64_t steps = 0;
  uint64_t last_ms = 0;  // since 1970, of the last one's end; 0: there was none
};

class Metrics : public EngineObserver, public prometheus::Collectable {
 public:
  // Names with series of their own; calls to more are counted under "none".
  static constexpr size_t kMostModels = 1024;

  explicit Metrics(const std::vector<ModelOptions>& models);

  // Makes the series of this name, unless there are any: they stay, so that counters never go back
  // when a model is loaded again.
  void AddModel(const std::string& name);
  void RecordCall(const CallRecord& record);
  void RecordRejection(Rejection reason);
  void OnStep(const std::string& model, const StepReport& report) override;
  // Of a model without series of its own, those of "none".
  ModelTotals Totals(std::string_view model) const;

  // From now on the gauges have values; null: from now on they have none.
  void SetEngine(const Engine* engine) { engine_ = engine; }
  // From now on the gauges have vLLM's names beside ours.
  void AddVllmNames() { has_vllm_names_ = true; }
  std::vector<prometheus::MetricFamily> Collect() const override;
  // Written by whoever accepts connections.
  ConnectionStats& connections() { return connections_; }
  // Written by whoever sends spans.
  SpanStats& spans() { return spans_; }
  // Written by the HTTP listener, where there is one.
  HttpStats& http() { return http_; }
  // Written by whoever reads certificates, where there are any.
  CertificateStats& certificates() { return certificates_; }
  // Written by quotas, where there are any.
  QuotaStats& quotas() { return quotas_; }
  // Written by whoever reads requests.
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
  // All named series, and behind them that of "none".
  std::vector<const ModelSeries*> All() const;
  ModelSeries& Find(std::string_view model) const;
  void CollectCertificates(std::vector<prometheus::MetricFamily>& families) const;
  void CollectQuotas(std::vector<prometheus::MetricFamily>& families) const;
  void CollectMessages(std::vector<prometheus::MetricFamily>& families) const;
  void CollectSpans(std::vector<prometheus::MetricFamily>& families) const;
  void CollectCalls(std::vector<prometheus::MetricFamily>& families) const;
  void CollectHistograms(std::vector<prometheus::MetricFamily>& families) const;

  std::mutex adding_;
  std::array<std::unique_ptr<ModelSeries>, kMostModels> models_;  // the first num_models_ are there
  std::atomic<size_t> num_models_ = 0;
  const std::unique_ptr<ModelSeries> none_ = std::make_unique<ModelSeries>();
  std::array<std::atomic<uint64_t>, kRejectionNames.size()> rejected_{};
  std::atomic<const Engine*> engine_{nullptr};
  std::atomic<bool> has_vllm_names_{false};
  ConnectionStats connections_;
  SpanStats spans_;
  HttpStats http_;
  CertificateStats certificates_;
  QuotaStats quotas_;
  MessageStats messages_;
};

}  // namespace beamline
