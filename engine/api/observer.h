// Callbacks that report the engine's work.
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
  int32_t num_prompt_tokens = 0;  // of num_tokens: encoder inputs and prompts
  int32_t num_sequences = 0;
};

// Called on the replica's own thread. With one instance per model, OnStep needs no lock.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(const std::string& model, const StepReport& report) = 0;
  // The device chose an implementation for the first time; `line` says which one and why.
  virtual void OnChoice(const std::string& model, const std::string& line) {
    static_cast<void>(model), static_cast<void>(line);
  }
  // Progress of loading a large model, at regular intervals, on the loading threads.
  virtual void OnLoading(const std::string& model, const std::string& line) {
    static_cast<void>(model), static_cast<void>(line);
  }
};

}  // namespace beamline
