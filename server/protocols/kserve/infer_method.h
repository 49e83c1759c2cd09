// A request of the Open Inference Protocol as one of beamline.v1, and the answer back: what
// ModelInfer (by engine_call.h) and ModelStreamInfer (infer_stream.h) have in common.
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

// What a request asked of its answers, kept until the last one.
struct InferAnswer {
  AnswerOptions answer;
  std::string model_name;     // as the request has it, or the only one's
  std::string model_version;  // of the model that answers
  std::string id;
  std::set<std::string, std::less<>> outputs;  // asked for by name; empty: all but left_out
  std::set<std::string, std::less<>> left_out;
  int32_t pad_id = 0;  // in output_ids, behind sequences that are shorter than the longest
  OptionNames names;   // of the request's options, for errors

  bool Wants(std::string_view output) const;
};

// A translated request: for one or the other of the engine's methods.
struct InferTranslation {
  std::variant<v1::GenerateRequest, v1::EncodeRequest> request;
  bool stream = false;  // of the answer, as it is written
  std::optional<Clock::time_point> deadline;
  InferAnswer answer;
};

// Without the model, which is resolved: `model` is what it means. INVALID_ARGUMENT names the input
// or the parameter.
absl::StatusOr<InferTranslation> TranslateInfer(const inference::ModelInferRequest& message,
                                                const ModelInfo& model,
                                                std::optional<Clock::time_point> deadline);
// Resolves the model, and records it.
absl::StatusOr<InferTranslation> TranslateInfer(CallState& call,
                                                const inference::ModelInferRequest& message,
                                                const Caller& caller);

// An error about a field of beamline.v1 as one about what this protocol calls it: of the names that
// an option may have the one that the request has.
absl::Status InInferRequest(const absl::Status& status, const OptionNames& names = {});

inference::ModelInferResponse ToInferResponse(const v1::GenerateResponse& response,
                                              const InferAnswer& answer);
inference::ModelInferResponse ToInferResponse(const v1::EncodeResponse& response,
                                              const InferAnswer& answer);
// Of a stream: with an end all that is known at the end, for each sequence.
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
  // The same of a request that is translated, to be answered at once.
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
