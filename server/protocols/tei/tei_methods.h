// Requests of tei.v1 as those of beamline.v1, and the answers back. What they have in common with
// the methods of server/calls/ is theirs: of the engine engine_call.h, of tokenizers token_calls.h.
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

// An error about a field of beamline.v1 as one about what this protocol calls it: the model is of
// the call's metadata, and there is one input.
absl::Status InTeiRequest(const absl::Status& status);

struct TeiAnswer {
  AnswerOptions answer;
  uint32_t num_chars = 0;  // of the text
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
  uint32_t num_chars = 0;  // of the texts
};

// PredictPair's Request has two texts.
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
  uint32_t num_chars = 0;          // of query and texts
  std::vector<std::string> texts;  // when the answer is to have them
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

// What the model of a call, by the name that its metadata have, is of use for: classes when it is a
// classifier, or nothing is named and the server has no encoder but one of these; else vectors.
ModelDirectory::Use TeiUse(const ModelDirectory& models, const std::string& name);

// `model`: the call's (Caller).
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
