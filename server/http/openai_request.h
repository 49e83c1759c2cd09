// Requests of OpenAI's API as requests of the contract. Fields that nobody knows are refused, as
// OpenAI does: a wish that is passed over in silence would look like one that is granted.
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
  v1::GenerateRequest request;      // of each prompt, without it
  std::vector<v1::Prompt> prompts;  // at least one
  OpenAiNames names;
  int32_t n = 1;  // answers to each
  bool stream = false;
  bool include_usage = false;       // in a last event of the stream
  bool continuous_usage = false;    // in every event of the stream
  std::optional<int32_t> logprobs;  // as asked for
  bool echo = false;
  bool skip_special_tokens = true;

  // The request of one prompt. Not all are made at once: what they have in common may be large, and
  // is refused with the first.
  v1::GenerateRequest Message(size_t prompt) const;
};

// The body of POST /v1/completions, with at most `most_prompts` of them. INVALID_ARGUMENT that
// names the field, its value and what is accepted (base/field_error.h).
absl::StatusOr<CompletionRequest> ParseCompletion(std::string_view body, size_t most_prompts);

// The body of POST /v1/chat/completions, the same way: one prompt, a conversation.
absl::StatusOr<CompletionRequest> ParseChatCompletion(std::string_view body);

struct EmbeddingRequest {
  v1::EncodeRequest request;
  OpenAiNames names;
  bool base64 = false;
};

// The body of POST /v1/embeddings.
absl::StatusOr<EmbeddingRequest> ParseEmbedding(std::string_view body);

}  // namespace beamline
