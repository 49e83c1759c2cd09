// What the engine tells while it works.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace beamline {

// One step of a replica, reported to the observer.
struct StepReport {
  enum class Phase : uint8_t { kPrefill, kDecode, kMixed, kEncode };
  Phase phase = Phase::kDecode;
  std::chrono::nanoseconds duration{};
  int32_t num_tokens = 0;
  int32_t num_prompt_tokens = 0;  // of them: encoder inputs, and prompts
  int32_t num_sequences = 0;
};

// Told of what happens, on the replica's own thread: one instance per model needs no locks against
// itself.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(const std::string& model, const StepReport& report) = 0;
  // A choice that the model's device made for the first time: what was chosen, and why.
  virtual void OnChoice(const std::string& model, const std::string& line) {
    static_cast<void>(model), static_cast<void>(line);
  }
  // How far the load of a large model is, at regular steps, on the threads that load it.
  virtual void OnLoading(const std::string& model, const std::string& line) {
    static_cast<void>(model), static_cast<void>(line);
  }
};

}  // namespace beamline
