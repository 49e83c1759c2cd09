// What OpenAI's API calls the fields of the contract and of the engine, in errors about them.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace beamline {

// As one request has them.
struct OpenAiNames {
  bool is_list = false;                   // of prompts or inputs: then errors say which one
  bool is_chat = false;                   // of messages
  const char* max_tokens = "max_tokens";  // what it calls limits.max_new_tokens
};

// An error of the contract's or the engine's field, said of OpenAI's that it was made of. `prompt`:
// which one of a list.
absl::Status InOpenAiField(const absl::Status& status, const OpenAiNames& names, size_t prompt = 0);

}  // namespace beamline
