// Runs requests through the engine and measures the time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// One line of the input file.
struct BenchInput {
  TokenIds ids;
  int32_t max_new_tokens = 0;
};

// How to make the requests.
struct BenchTask {
  enum class Kind : uint8_t { kGenerate, kEncode, kScore };

  std::string model;
  Kind kind = Kind::kGenerate;
  int beam_width = 1;  // 1: greedy
  bool ignore_eos = false;
  int batch = 1;        // requests submitted together; the next ones follow when all are answered
  bool refill = false;  // generation only: submits one request whenever one is answered
  bool keep_outputs = false;
};

struct BenchOutcome {
  double seconds = 0.0;
  double submit_seconds = 0.0;  // generation only: time until the requests were submitted
  int64_t tokens =
      0;  // generated ids of the best sequences, input ids of embeddings, or scored ids
  // The generated ids, the embeddings, or the sums of log-probabilities.
  nlohmann::json outputs = nlohmann::json::array();
};

// Reads JSON lines: an array of token ids, or {"ids": [...], "max_new_tokens": N}. `max_new_tokens`
// is the limit of lines without one.
absl::StatusOr<std::vector<BenchInput>> ReadBenchInputs(const std::string& path,
                                                        int32_t max_new_tokens);

absl::StatusOr<BenchOutcome> RunBench(Engine& engine, const BenchTask& task,
                                      const std::vector<BenchInput>& inputs);

}  // namespace beamline
