// Builds the "logprobs" of one answer, piece by piece, in the format of completions or of chat
// completions.
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
  // The first token of a prompt, which has no log-probability.
  virtual void AddFirst(int32_t id) = 0;
  virtual void Add(const v1::PositionLogprobs& position) = 0;
  // Everything added since the last call.
  virtual nlohmann::ordered_json Take() = 0;
};

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. Offsets count characters of the
// answer's text. Every candidate has a unique name (TokenTexts::NameOf).
std::unique_ptr<LogprobsWriter> MakeCompletionLogprobs(std::shared_ptr<const TokenTexts> texts,
                                                       bool skip_special_tokens);
// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal"}. All `bytes` together are
// the answer's text; they are null for special tokens.
std::unique_ptr<LogprobsWriter> MakeChatLogprobs(std::shared_ptr<const TokenTexts> texts);

}  // namespace beamline
