// What the server measures, and its answer to a scrape of /metrics. Recording never takes a lock:
// every series lies in arrays made at start, by model and RPC.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "prometheus/collectable.h"
#include "server/accept/connection_stats.h"
#include "server/metrics/histogram.h"

namespace beamline {

// Label values of `rpc`.
enum class Rpc : uint8_t {
  kGenerate,
  kGenerateStream,
  kGenerateMany,
  kEncode,
  kEncodeMany,
  kScore,
  kTokenize,
  kDetokenize,
  kListModels,
  kGetModel
};
inline constexpr std::array<std::string_view, 10> kRpcNames = {
    "Generate", "GenerateStream", "GenerateMany", "Encode",     "EncodeMany",
    "Score",    "Tokenize",       "Detokenize",   "ListModels", "GetModel"};

// A call that is over, or one request of a stream of requests.
struct CallRecord {
  Rpc rpc = Rpc::kGenerate;
  std::string model;  // empty, or unknown: counted under "none"
  absl::StatusCode code = absl::StatusCode::kOk;
  std::chrono::nanoseconds duration{};
  Timing timing;  // zero when the engine did not answer
  int32_t generated_tokens = 0;
};

class Metrics : public EngineObserver, public prometheus::Collectable {
 public:
  explicit Metrics(const std::vector<ModelOptions>& models);

  void RecordCall(const CallRecord& record);
  // reason: "overload" or "draining".
  void RecordRejection(bool draining);
  void OnStep(const std::string& model, const StepReport& report) override;

  // From then on the gauges have values. Null: not any more.
  void SetEngine(const Engine* engine) { engine_ = engine; }
  std::vector<prometheus::MetricFamily> Collect() const override;
  // Written by whoever accepts connections.
  ConnectionStats& connections() { return connections_; }

 private:
  static constexpr size_t kNumCodes = 17;
  static constexpr size_t kNumPhases = 4;

  struct RpcSeries {
    std::array<std::atomic<uint64_t>, kNumCodes> calls{};
    Histogram duration{LatencyEdges()};
  };
  struct ModelSeries {
    std::string name;
    std::array<RpcSeries, kRpcNames.size()> rpcs;
    Histogram first_token{LatencyEdges()};
    Histogram inter_token{LatencyEdges()};
    Histogram queue{LatencyEdges()};
    Histogram prefill{LatencyEdges()};
    std::array<Histogram, kNumPhases> steps{Histogram(LatencyEdges()), Histogram(LatencyEdges()),
                                            Histogram(LatencyEdges()), Histogram(LatencyEdges())};
    Histogram batch_tokens{SizeEdges()};
    Histogram batch_sequences{SizeEdges()};
  };

  ModelSeries& Find(std::string_view model) const;
  void CollectCalls(std::vector<prometheus::MetricFamily>& families) const;
  void CollectHistograms(std::vector<prometheus::MetricFamily>& families) const;
  void CollectEngine(std::vector<prometheus::MetricFamily>& families) const;

  std::vector<std::unique_ptr<ModelSeries>> models_;  // the last one is "none"
  std::atomic<uint64_t> rejected_overload_{0};
  std::atomic<uint64_t> rejected_draining_{0};
  std::atomic<const Engine*> engine_{nullptr};
  ConnectionStats connections_;
};

}  // namespace beamline
