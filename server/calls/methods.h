// The RPCs that the engine answers, one struct each: message types, conversion of the request,
// conversion of the result. A request comes alone (engine_call.h) or within a stream of many
// (many_call.h).
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/engine.h"
#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/calls/model_directory.h"
#include "server/wire/response.h"

namespace beamline {

// A generation request, ready for the engine.
struct PreparedGenerate {
  GenerateRequest request;
  AnswerOptions answer;
};
// Resolves the model and converts the message.
absl::StatusOr<PreparedGenerate> PrepareGenerate(CallState& call,
                                                 const v1::GenerateRequest& message,
                                                 const Caller& caller);

struct GenerateMethod {
  using Request = v1::GenerateRequest;
  using Response = v1::GenerateResponse;
  using Sink = GenerateSink;
  using Result = GenerateResult;
  using Options = AnswerOptions;

  // `answer` is filled before the sink can get the result.
  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               AnswerOptions& answer);
  // The complete answer, or an error.
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const AnswerOptions& answer);
  // True if converting and sending the answer takes only some microseconds.
  static bool IsBrief(const Result& result);
};

struct EncodeMethod {
  using Request = v1::EncodeRequest;
  using Response = v1::EncodeResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = AnswerOptions;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               AnswerOptions& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const AnswerOptions& answer);
  // The same, into an empty message.
  static void Answer(CallState& call, const Result& result, const AnswerOptions& answer,
                     Response& message);
  static bool IsBrief(const Result& result);
};

// What a classification's answer needs in addition to the scores.
struct ClassifyAnswer {
  AnswerOptions answer;
  std::optional<int32_t> top;
  ModelDirectory::ModelPtr model;  // its labels are used
};

struct ClassifyMethod {
  using Request = v1::ClassifyRequest;
  using Response = v1::ClassifyResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = ClassifyAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result);
};

struct RerankMethod {
  using Request = v1::RerankRequest;
  using Response = v1::RerankResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = ClassifyAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result) { return ClassifyMethod::IsBrief(result); }
};

// What the answer of ClassifyTokens needs in addition to the scores.
struct ClassifyTokensAnswer {
  AnswerOptions answer;
  TokenAnswerOptions asked;
  ModelDirectory::ModelPtr model;  // its labels are used
  std::shared_ptr<const Tokenizer> tokenizer;
};

struct ClassifyTokensMethod {
  using Request = v1::ClassifyTokensRequest;
  using Response = v1::ClassifyTokensResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = ClassifyTokensAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result);
};

// What the answer of FillMask needs in addition to the tokens.
struct FillMaskAnswer {
  AnswerOptions answer;
  std::shared_ptr<const Tokenizer> tokenizer;
};

struct FillMaskMethod {
  using Request = v1::FillMaskRequest;
  using Response = v1::FillMaskResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = FillMaskAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result);
};

struct ScoreMethod {
  using Request = v1::ScoreRequest;
  using Response = v1::ScoreResponse;
  using Sink = ScoreSink;
  using Result = ScoreResult;
  using Options = AnswerOptions;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               AnswerOptions& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const AnswerOptions& answer);
  static bool IsBrief(const Result& result);
};

}  // namespace beamline
