// Converts an Open Inference Protocol request to one of beamline.v1, and the answer back. Used by
// ModelInfer (engine_call.h) and ModelStreamInfer (infer_stream.h).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/engine.h"
#include "inference/grpc_service.pb.h"
#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/calls/methods.h"
#include "server/protocols/kserve/options.h"

namespace beamline {

// What the answers need from their request, until the last one.
struct InferAnswer {
  AnswerOptions answer;
  std::string model_name;     // as in the request, else the only model's
  std::string model_version;  // of the model that answers
  std::string id;
  std::set<std::string, std::less<>> outputs;  // requested names; empty: all but left_out
  std::set<std::string, std::less<>> left_out;
  int32_t pad_id = 0;  // in output_ids, after sequences that are shorter than the longest
  OptionNames names;   // of the request's options, for errors

  bool Wants(std::string_view output) const;
};

// A converted request, for one of two methods of the engine.
struct InferTranslation {
  std::variant<v1::GenerateRequest, v1::EncodeRequest> request;
  bool stream = false;  // stream the answer as it is generated
  std::optional<Clock::time_point> deadline;
  InferAnswer answer;
};

// Converts everything but the model; `model` is the resolved one. INVALID_ARGUMENT naming the input
// or the parameter.
absl::StatusOr<InferTranslation> TranslateInfer(const inference::ModelInferRequest& message,
                                                const ModelInfo& model,
                                                std::optional<Clock::time_point> deadline);
// Resolves and records the model, and converts.
absl::StatusOr<InferTranslation> TranslateInfer(CallState& call,
                                                const inference::ModelInferRequest& message,
                                                const Caller& caller);

// Renames the fields of beamline.v1 in an error to this protocol's. If an option has several names,
// uses the one in the request.
absl::Status InInferRequest(const absl::Status& status, const OptionNames& names = {});

inference::ModelInferResponse ToInferResponse(const v1::GenerateResponse& response,
                                              const InferAnswer& answer);
inference::ModelInferResponse ToInferResponse(const v1::EncodeResponse& response,
                                              const InferAnswer& answer);
// A message of a stream. With an end it has all final values of each sequence.
inference::ModelInferResponse ToInferResponse(const v1::GenerateStreamResponse& response,
                                              const InferAnswer& answer);
// A response without outputs.
inference::ModelInferResponse EmptyInferResponse(const InferAnswer& answer);

using InferResult = std::variant<GenerateResult, EncodeResult>;
class InferSink {
 public:
  virtual ~InferSink() = default;
  virtual void OnFinish(absl::StatusOr<InferResult> result) = 0;  // exactly once
};

// One request, one answer.
struct InferMethod {
  using Request = inference::ModelInferRequest;
  using Response = inference::ModelInferResponse;
  using Sink = InferSink;
  using Result = InferResult;
  using Options = InferAnswer;

  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const Request& message,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  // The same for a converted request with one answer.
  static absl::StatusOr<std::shared_ptr<RequestHandle>> Submit(CallState& call,
                                                               const InferTranslation& translation,
                                                               const Caller& caller,
                                                               std::shared_ptr<Sink> sink,
                                                               Options& answer);
  static absl::StatusOr<Response> Answer(CallState& call, const Result& result,
                                         const Options& answer);
  static bool IsBrief(const Result& result);
};

}  // namespace beamline
