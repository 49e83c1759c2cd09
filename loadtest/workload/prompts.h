// Generates the prompts of a class of requests.
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

// Exactly one of `texts`, `words` and `tokens` is set.
struct PromptSource {
  std::vector<std::string> texts;      // draws one of them
  std::optional<Distribution> words;   // draws this many random English words
  std::optional<Distribution> tokens;  // draws this many random token ids

  // Number of words or tokens that are the same in all prompts of the class, before the random
  // ones. They measure prefix caching.
  int64_t num_shared = 0;
};

// The "text" fields of a JSON Lines file. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path);

// shared: generates the shared prefix. vocab_size: the model's; only needed for `tokens`.
v1::Prompt DrawPrompt(const PromptSource& source, int32_t vocab_size, Random& random,
                      Random shared);

}  // namespace beamline::loadtest
