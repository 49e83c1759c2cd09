// One timed run of requests through the engine.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// A line of the input file.
struct BenchInput {
  TokenIds ids;
  int32_t max_new_tokens = 0;
};

// How the requests are made.
struct BenchTask {
  enum class Kind : uint8_t { kGenerate, kEncode, kScore };

  std::string model;
  Kind kind = Kind::kGenerate;
  int beam_width = 1;  // 1: greedy
  bool ignore_eos = false;
  int batch = 1;        // requests submitted together; the next when all of these are answered
  bool refill = false;  // of generation: instead, one more whenever one is answered
  bool keep_outputs = false;
};

struct BenchOutcome {
  double seconds = 0.0;
  double submit_seconds = 0.0;  // of generation, until the requests were submitted
  int64_t tokens = 0;  // generated ids of the best sequences, ids of embeddings' inputs, scored ids
  // Those ids, the embeddings, or the sums of log probabilities.
  nlohmann::json outputs = nlohmann::json::array();
};

// JSON lines: an array of token ids, or {"ids": [...], "max_new_tokens": N}; elsewhere
// `max_new_tokens` is the limit.
absl::StatusOr<std::vector<BenchInput>> ReadBenchInputs(const std::string& path,
                                                        int32_t max_new_tokens);

absl::StatusOr<BenchOutcome> RunBench(Engine& engine, const BenchTask& task,
                                      const std::vector<BenchInput>& inputs);

}  // namespace beamline
