// Divides a step's prompt tokens among several clients. No state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace beamline {

struct PromptDemand {
  std::string_view client;
  uint64_t last_step = 0;  // the last step that had tokens of this prompt; 0: none
  int32_t tokens = 0;      // tokens that the prompt could use
  int32_t share = 0;       // result: tokens that it gets
};

// Divides `num_tokens` >= 0 among the demands, which are in the order of admission. Clients get
// equal shares; what one does not need goes to the others. Within a client the earliest demand
// comes first. Returns the index of the demand to serve first: the earliest one of the client whose
// prompts have waited longest. REQUIRES: at least one demand.
size_t SharePromptTokens(int32_t num_tokens, std::span<PromptDemand> demands);

}  // namespace beamline
