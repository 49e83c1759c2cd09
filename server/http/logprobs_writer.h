// The "logprobs" of one answer, piece by piece, in the form of completions or of chat completions.
#pragma once

#include <cstdint>
#include <memory>

#include "beamline/v1/inference.pb.h"
#include "nlohmann/json.hpp"
#include "server/http/token_texts.h"

namespace beamline {

class LogprobsWriter {
 public:
  virtual ~LogprobsWriter() = default;
  // A prompt's first token, which nothing comes before.
  virtual void AddFirst(int32_t id) = 0;
  virtual void Add(const v1::PositionLogprobs& position) = 0;
  // What was added since the last call.
  virtual nlohmann::ordered_json Take() = 0;
};

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. Offsets count characters of the
// answer's text. Every candidate has a name of its own (TokenTexts::NameOf).
std::unique_ptr<LogprobsWriter> MakeCompletionLogprobs(std::shared_ptr<const TokenTexts> texts,
                                                       bool skip_special_tokens);
// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal"}. The bytes together are
// the answer's text; null of special tokens.
std::unique_ptr<LogprobsWriter> MakeChatLogprobs(std::shared_ptr<const TokenTexts> texts);

}  // namespace beamline
