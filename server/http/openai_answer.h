// Answers of OpenAI's API of the contract's and the engine's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "nlohmann/json.hpp"

namespace beamline {

// What all parts of one completion's answer have in common.
struct CompletionHead {
  std::string id;       // "cmpl-..."
  std::string object;   // "text_completion"
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as the request named it
};

// "stop", "length"; null of a sequence that goes on.
nlohmann::ordered_json FinishText(v1::FinishReason reason);
nlohmann::ordered_json UsageJson(const std::vector<v1::Usage>& usages);
// Of a stream that goes on: what the prompts have is told at the end.
nlohmann::ordered_json UsageSoFarJson(int64_t generated_tokens);

// One choice of an answer or an event.
nlohmann::ordered_json ChoiceJson(int64_t index, const std::string& text,
                                  nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);
// The same of a chat completion: a message, or a part of one, which tells who speaks where it is
// the first.
nlohmann::ordered_json MessageJson(int64_t index, const std::string& text,
                                   nlohmann::ordered_json logprobs,
                                   nlohmann::ordered_json finish_reason);
nlohmann::ordered_json MessageDeltaJson(int64_t index, const std::string& text, bool is_first,
                                        nlohmann::ordered_json logprobs,
                                        nlohmann::ordered_json finish_reason);
// A whole answer, or an event of a stream. `usage` is left out where it is discarded.
std::string CompletionJson(const CompletionHead& head, nlohmann::ordered_json choices,
                           nlohmann::ordered_json usage);
// A server-sent event.
std::string Event(const std::string& data);

std::string EmbeddingJson(const v1::EncodeResponse& response, bool base64);

}  // namespace beamline
