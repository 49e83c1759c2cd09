// Converts requests of tei.v1 to those of beamline.v1, and answers back. Methods of the engine fit
// engine_call.h; methods of tokenizers fit token_calls.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/engine.h"
#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/calls/methods.h"
#include "server/calls/token_calls.h"
#include "tei/v1/tei.pb.h"

namespace beamline {

// Renames the fields of beamline.v1 in an error to those of tei.v1: the model is in the call's
// metadata, and there is one input.
absl::Status InTeiRequest(const absl::Status& status);

struct TeiAnswer {
  AnswerOptions answer;
  uint32_t num_chars = 0;  // characters of the text
};

struct TeiEmbedMethod {
  using Request = tei::v1::EmbedRequest;
  using Response = tei::v1::EmbedResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = TeiAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result) { return EncodeMethod::IsBrief(result); }
};

struct TeiEmbedAllMethod {
  using Request = tei::v1::EmbedAllRequest;
  using Response = tei::v1::EmbedAllResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = TeiAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result) { return EncodeMethod::IsBrief(result); }
};

struct TeiPrediction {
  ClassifyAnswer classified;
  uint32_t num_chars = 0;  // characters of the texts
};

// For PredictRequest, and for PredictPairRequest with two texts.
template <typename PredictRequest>
struct TeiPredictMethod {
  using Request = PredictRequest;
  using Response = tei::v1::PredictResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = TeiPrediction;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result) { return ClassifyMethod::IsBrief(result); }
};

struct TeiRanking {
  ClassifyAnswer ranked;
  uint32_t num_chars = 0;          // characters of the query and the texts
  std::vector<std::string> texts;  // if the answer has them
};

struct TeiRerankMethod {
  using Request = tei::v1::RerankRequest;
  using Response = tei::v1::RerankResponse;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Options = TeiRanking;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result) { return ClassifyMethod::IsBrief(result); }
};

// How the call's model is used. `name`: from the call's metadata. A named model: kClassify for a
// classifier, kRerank for another reranker, else kEncode. No name: the first of kEncode, kClassify
// and kRerank that exactly one ready model supports, else kEncode.
ModelDirectory::Use TeiUse(const ModelDirectory& models, const std::string& name);

// `model`: of the Caller.
struct TeiTokenizeMethod {
  using Request = tei::v1::EncodeRequest;
  using Response = tei::v1::EncodeResponse;
  struct Prepared {
    ChosenTokenizer chosen;
    v1::TokenizeRequest request;
  };

  static absl::StatusOr<Prepared> Prepare(CallState& call, const Request& message,
                                          const std::string& model);
  static bool IsLarge(const Request& message) { return message.inputs().size() > kLargeTextBytes; }
  static absl::StatusOr<Response> Answer(const Prepared& prepared, const Request& message,
                                         int64_t max_bytes);
};

struct TeiDecodeMethod {
  using Request = tei::v1::DecodeRequest;
  using Response = tei::v1::DecodeResponse;
  struct Prepared {
    ChosenTokenizer chosen;
    v1::DetokenizeRequest request;
  };

  static absl::StatusOr<Prepared> Prepare(CallState& call, const Request& message,
                                          const std::string& model);
  static bool IsLarge(const Request& message) { return message.ids_size() > kLargeIdCount; }
  static absl::StatusOr<Response> Answer(const Prepared& prepared, const Request& message,
                                         int64_t max_bytes);
};

}  // namespace beamline
