// What the tests of the engine over the demo models share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "tests/engine/test_device.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/sanitized.h"

namespace beamline {

// The same model computed by so many ranks together (test_device.h).
inline ModelOptions OnRanks(ModelOptions options, int32_t num_ranks) {
  options.tensor_parallel = num_ranks;
  if (num_ranks > 1) options.device = RanksAreGpus(num_ranks) ? "cuda" : "cpu";
  return options;
}

// The same model in so many stages, each of so many ranks.
inline ModelOptions OnStages(ModelOptions options, int32_t num_stages, int32_t num_ranks = 1) {
  options = OnRanks(std::move(options), num_ranks);
  options.pipeline_parallel = num_stages;
  if (num_stages > 1) options.device = RanksAreGpus(num_stages * num_ranks) ? "cuda" : "cpu";
  return options;
}

// As many ranks as a demo model divides into.
inline int32_t MostRanks(const std::string& name) { return name == "write-en" ? 3 : 4; }

// So many ranks as the environment variable BEAMLINE_TEST_RANKS says: most, or two where they
// divide the model; 1 without it.
inline int32_t TestRanks(const std::string& name) {
  const char* const ranks = std::getenv("BEAMLINE_TEST_RANKS");
  if (ranks == nullptr) return 1;
  if (std::string_view(ranks) == "most") return MostRanks(name);
  return MostRanks(name) % 2 == 0 ? 2 : 1;
}

// With BEAMLINE_TEST_RANKS=stages in three stages, with two_stages in two.
inline ModelOptions Demo(const std::string& name, DType dtype = DType::kFloat32) {
  ModelOptions options;
  options.name = name;
  options.folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
  options.dtype = dtype;
  options.device = TestDevice();
  const char* const ranks = std::getenv("BEAMLINE_TEST_RANKS");
  if (ranks != nullptr && std::string_view(ranks) == "stages") return OnStages(options, 3);
  if (ranks != nullptr && std::string_view(ranks) == "two_stages") return OnStages(options, 2);
  return OnRanks(options, TestRanks(name));
}

// For engines of any models on TestDevice().
inline EngineOptions TestEngineOptions() {
  EngineOptions options;
  options.gpu_memory = kTestGpuMemory;
  return options;
}

// All three demo models.
inline absl::StatusOr<std::unique_ptr<Engine>> MakeDemoEngine(DType dtype = DType::kFloat32) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("translate-en-de", dtype), Demo("embed-en", dtype),
                    Demo("write-en", dtype)};
  return Engine::Create(options);
}

inline Engine& SharedEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    auto created = MakeDemoEngine();
    if (!created.ok()) {
      ADD_FAILURE() << created.status();
      std::abort();
    }
    return *std::move(created);
  }();
  return *engine;
}

// Collects deltas and the answer.
class RecordingSink : public GenerateSink {
 public:
  explicit RecordingSink(bool stream = false) : stream_(stream) {}
  bool wants_deltas() const override { return stream_; }
  void OnDelta(GenerateDelta delta) override {
    text_ += delta.text;
    ids_.insert(ids_.end(), delta.ids.begin(), delta.ids.end());
    if (!first_delta_seen_.exchange(true)) first_delta_.set_value();
  }
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    if (!first_delta_seen_.exchange(true)) first_delta_.set_value();
    result_.set_value(std::move(result));
  }
  absl::StatusOr<GenerateResult> Wait() { return result_.get_future().get(); }
  void WaitForFirstDelta() { first_delta_.get_future().wait(); }
  // REQUIRES: Wait() has returned.
  const std::string& text() const { return text_; }
  const TokenIds& ids() const { return ids_; }

 private:
  bool stream_;
  std::string text_;
  TokenIds ids_;
  std::atomic<bool> first_delta_seen_ = false;
  std::promise<void> first_delta_;
  std::promise<absl::StatusOr<GenerateResult>> result_;
};

class RecordingEncodeSink : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    result_.set_value(std::move(result));
  }
  absl::StatusOr<EncodeResult> Wait() { return result_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<EncodeResult>> result_;
};

inline GenerateRequest Write(const std::string& prompt, int32_t max_new_tokens) {
  GenerateRequest request;
  request.model = "write-en";
  request.prompt = prompt;
  request.decoding = GreedyOptions();
  request.limits.max_new_tokens = max_new_tokens;
  return request;
}

inline GenerateRequest Translate(const std::string& text, Decoding decoding) {
  GenerateRequest request;
  request.model = "translate-en-de";
  request.prompt = text;
  request.decoding = std::move(decoding);
  request.limits.max_new_tokens =
      199;  // the golden files' max_length of 200 counts the start token
  return request;
}

// Submits every request at once and waits for all.
inline std::vector<absl::StatusOr<GenerateResult>> RunTogether(
    const std::vector<GenerateRequest>& requests, Engine& engine = SharedEngine()) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const GenerateRequest& request : requests) {
    sinks.push_back(std::make_shared<RecordingSink>());
    const auto handle = engine.Generate(request, sinks.back());
    if (!handle.ok()) sinks.back()->OnFinish(handle.status());
  }
  std::vector<absl::StatusOr<GenerateResult>> results;
  for (const auto& sink : sinks) results.push_back(sink->Wait());
  return results;
}

}  // namespace beamline
