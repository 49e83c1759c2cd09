// Converts the engine's results to messages of the API.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "beamline/v1/models.pb.h"
#include "engine/api/engine.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// What the answer needs from its request.
struct AnswerOptions {
  std::string model;
  std::string request_id;
  bool sampling = false;  // the answer has the seed
  bool return_token_ids = true;
};

v1::GenerateResponse ToMessage(const GenerateResult& result, const AnswerOptions& options);
// The last message of a stream, without deltas.
v1::StreamEnd ToStreamEnd(const GenerateResult& result, const AnswerOptions& options);
v1::SequenceDelta ToMessage(GenerateDelta delta, const AnswerOptions& options);
v1::ScoreResponse ToMessage(const ScoreResult& result, const AnswerOptions& options);
v1::EncodeResponse ToMessage(const EncodeResult& result, const AnswerOptions& options);
// The same, into an empty message.
void FillMessage(const EncodeResult& result, const AnswerOptions& options,
                 v1::EncodeResponse& message);
// The best `top` classes of each input, or all in the order of `labels`.
v1::ClassifyResponse ToClassifyMessage(const EncodeResult& result,
                                       const std::vector<std::string>& labels,
                                       std::optional<int32_t> top, const AnswerOptions& options);
// The best `top` documents, or all in their order.
v1::RerankResponse ToRerankMessage(const EncodeResult& result, std::optional<int32_t> top,
                                   const AnswerOptions& options);
// The request's options for the answer of ClassifyTokens.
struct TokenAnswerOptions {
  std::vector<std::string> inputs;
  v1::Aggregation aggregation = v1::AGGREGATION_NONE;
  std::vector<std::string> ignored_labels;
  int32_t top = 1;
};
TokenAnswerOptions ToTokenAnswerOptions(const v1::ClassifyTokensRequest& message);
v1::ClassifyTokensResponse ToClassifyTokensMessage(const EncodeResult& result,
                                                   const std::vector<std::string>& labels,
                                                   const Tokenizer& tokenizer,
                                                   const TokenAnswerOptions& asked,
                                                   const AnswerOptions& options);
v1::FillMaskResponse ToFillMaskMessage(const EncodeResult& result, const Tokenizer& tokenizer,
                                       const AnswerOptions& options);
v1::Model ToMessage(const ModelInfo& model, int32_t num_template_tokens);

}  // namespace beamline
