// OpenAI's names for fields of the API and of the engine, in errors.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace beamline {

// The names in one request.
struct OpenAiNames {
  bool is_list = false;                   // a list of prompts or inputs: errors have the index
  bool is_chat = false;                   // has messages
  const char* max_tokens = "max_tokens";  // its name for limits.max_new_tokens
};

// Rewrites an error about a field of the API or the engine to name the OpenAI field. `prompt`:
// index in a list.
absl::Status InOpenAiField(const absl::Status& status, const OpenAiNames& names, size_t prompt = 0);

}  // namespace beamline
