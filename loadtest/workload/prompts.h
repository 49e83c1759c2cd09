// Where the prompts of a class of requests come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "loadtest/workload/distribution.h"
#include "loadtest/workload/random.h"

namespace beamline::loadtest {

// Exactly one of `texts`, `words` and `tokens`.
struct PromptSource {
  std::vector<std::string> texts;      // one of them
  std::optional<Distribution> words;   // this many random English words
  std::optional<Distribution> tokens;  // this many random ids of the vocabulary

  // This many words or tokens, the same in every prompt of the class, come before the `words` or
  // `tokens` that differ. They measure a cache of prompts' beginnings.
  int64_t num_shared = 0;
};

// The "text" fields of a file with one JSON object a line. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path);

// shared: decides the shared prefix. vocab_size: of the model; needed for `tokens` alone.
v1::Prompt DrawPrompt(const PromptSource& source, int32_t vocab_size, Random& random,
                      Random shared);

}  // namespace beamline::loadtest
