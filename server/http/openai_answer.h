// Converts answers to OpenAI's JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "nlohmann/json.hpp"

namespace beamline {

// The common fields of all parts of a completion's answer.
struct CompletionHead {
  std::string id;       // "cmpl-..."
  std::string object;   // "text_completion"
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as in the request
};

// "stop", "length"; null for an unfinished sequence.
nlohmann::ordered_json FinishText(v1::FinishReason reason);
nlohmann::ordered_json UsageJson(const std::vector<v1::Usage>& usages);
// Usage within a stream, before the end; prompt tokens are only in the last event.
nlohmann::ordered_json UsageSoFarJson(int64_t generated_tokens);

// A choice of an answer or an event.
nlohmann::ordered_json ChoiceJson(int64_t index, const std::string& text,
                                  nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);
// The same for a chat completion: a message, or a part of one. The first part has the role.
nlohmann::ordered_json MessageJson(int64_t index, const std::string& text,
                                   nlohmann::ordered_json logprobs,
                                   nlohmann::ordered_json finish_reason);
nlohmann::ordered_json MessageDeltaJson(int64_t index, const std::string& text, bool is_first,
                                        nlohmann::ordered_json logprobs,
                                        nlohmann::ordered_json finish_reason);
// A complete answer, or an event of a stream. `usage` is omitted if it is a discarded value.
std::string CompletionJson(const CompletionHead& head, nlohmann::ordered_json choices,
                           nlohmann::ordered_json usage);
// A server-sent event.
std::string Event(const std::string& data);

std::string EmbeddingJson(const v1::EncodeResponse& response, bool base64);

}  // namespace beamline
