// Answers of OpenAI's API of the contract's and the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace beamline {

// What all parts of one completion's answer have in common.
struct CompletionHead {
  std::string id;       // "cmpl-..."
  std::string object;   // "text_completion"
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as the request named it
};

// The "logprobs" of one answer, piece by piece: the tokens' texts, which together are the answer's.
class LogprobsWriter {
 public:
  LogprobsWriter(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
      : tokenizer_(std::move(tokenizer)),
        decoder_(tokenizer_->StartDecoding(skip_special_tokens)) {}

  // A prompt's first token, which nothing comes before.
  void AddFirst(int32_t id);
  void Add(const v1::PositionLogprobs& position);
  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of what was added since the last
  // call. Offsets count characters from the answer's beginning.
  nlohmann::ordered_json Take();

 private:
  std::string Append(int32_t id);
  std::string TextOf(int32_t id) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<IncrementalDetokenizer> decoder_;
  int64_t offset_ = 0;
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json chosen_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json top_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json offsets_ = nlohmann::ordered_json::array();
};

// "stop", "length"; null of a sequence that goes on.
nlohmann::ordered_json FinishText(v1::FinishReason reason);
nlohmann::ordered_json UsageJson(const std::vector<v1::Usage>& usages);

// One choice of an answer or an event.
nlohmann::ordered_json ChoiceJson(int64_t index, const std::string& text,
                                  nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);
// The same of a chat completion: a message, or a part of one, which tells who speaks where it is
// the first.
nlohmann::ordered_json MessageJson(int64_t index, const std::string& text,
                                   nlohmann::ordered_json finish_reason);
nlohmann::ordered_json MessageDeltaJson(int64_t index, const std::string& text, bool is_first,
                                        nlohmann::ordered_json finish_reason);
// A whole answer, or an event of a stream. `usage` is left out where it is discarded.
std::string CompletionJson(const CompletionHead& head, nlohmann::ordered_json choices,
                           nlohmann::ordered_json usage);
// A server-sent event.
std::string Event(const std::string& data);

std::string EmbeddingJson(const v1::EncodeResponse& response, bool base64);

}  // namespace beamline
