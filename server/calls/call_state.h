// What every call has in common: its place among the running ones, and its entry in the metrics.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/pool/worker_pool.h"
#include "server/admission.h"
#include "server/metrics/metrics.h"
#include "server/model_directory.h"

namespace beamline {

// Of a stream of requests (GenerateMany, EncodeMany).
struct StreamLimits {
  int32_t max_outstanding = 1024;  // requests without a written answer; then reading stops
  int32_t max_send_bytes = 64 << 20;
};

// What calls work with; outlives them.
struct ServiceContext {
  Engine& engine;
  const ModelDirectory& models;
  Admission& admission;
  Metrics& metrics;
  WorkerPool& writers;       // answers are converted and written here, off the engine's threads
  WorkerPool& text_workers;  // tokenizes large texts, off gRPC's threads
  StreamLimits stream_limits;
};

class CallState {
 public:
  CallState(ServiceContext& services, Rpc rpc) : services_(services), start_(Clock::now()) {
    record_.rpc = rpc;
  }

  ServiceContext& services() { return services_; }
  // To be asked before any work is spent; counts refusals.
  absl::Status Admit();
  void SetModel(const std::string& model) { record_.model = model; }
  void SetCode(int code) { record_.code = static_cast<absl::StatusCode>(code); }
  void SetAnswer(const Timing& timing, int32_t generated_tokens) {
    record_.timing = timing;
    record_.generated_tokens = generated_tokens;
  }
  // The call is over: gives its place back and records it.
  void Done();

 private:
  ServiceContext& services_;
  const Clock::time_point start_;
  CallRecord record_;
  std::optional<Admission::Permit> permit_;
};

}  // namespace beamline
