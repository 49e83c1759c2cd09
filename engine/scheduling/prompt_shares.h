// How the prompts of several clients share the tokens of a step. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace beamline {

struct PromptDemand {
  std::string_view client;
  uint64_t last_step = 0;  // the latest step that had tokens of this prompt; 0: none
  int32_t tokens = 0;      // that the prompt could use
  int32_t share = 0;       // the result: of these, those that it gets
};

// Divides `num_tokens` >= 0 among the demands, which are in the order of admission: equally among
// clients, so that what one does not need goes to the others, and within a client to the earliest
// first. Returns the index of the demand that is first in turn: the earliest of the client whose
// prompts have waited longest. REQUIRES: at least one demand.
size_t SharePromptTokens(int32_t num_tokens, std::span<PromptDemand> demands);

}  // namespace beamline
