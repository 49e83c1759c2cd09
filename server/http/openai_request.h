// Converts OpenAI's requests to the API's. Unknown fields are refused, as OpenAI does. Otherwise a
// client would believe that an ignored option has an effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "server/http/openai_names.h"

namespace beamline {

struct CompletionRequest {
  v1::GenerateRequest request;      // without its prompt
  std::vector<v1::Prompt> prompts;  // at least one
  OpenAiNames names;
  int32_t n = 1;  // answers per prompt
  bool stream = false;
  bool include_usage = false;       // in the stream's last event
  bool continuous_usage = false;    // in every event of the stream
  std::optional<int32_t> logprobs;  // the requested number of candidates
  bool echo = false;
  bool skip_special_tokens = true;

  // The request of one prompt. They are made one by one: their common part may be large, and the
  // first one shows whether it is refused.
  v1::GenerateRequest Message(size_t prompt) const;
};

// Parses the body of POST /v1/completions, with at most `most_prompts` prompts. INVALID_ARGUMENT
// naming the field, its value and what is accepted (base/field_error.h).
absl::StatusOr<CompletionRequest> ParseCompletion(std::string_view body, size_t most_prompts);

// Parses the body of POST /v1/chat/completions: one prompt, a conversation.
absl::StatusOr<CompletionRequest> ParseChatCompletion(std::string_view body);

struct EmbeddingRequest {
  v1::EncodeRequest request;
  OpenAiNames names;
  bool base64 = false;
};

// Parses the body of POST /v1/embeddings.
absl::StatusOr<EmbeddingRequest> ParseEmbedding(std::string_view body);

}  // namespace beamline
