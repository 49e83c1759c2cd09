// Checks and tokenizes a ClassifyTokens request.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of the shape of GenerateIntake; HasInputs (tokenize_job.h).
class ClassifyTokensIntake {
 public:
  using Request = ClassifyTokensRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<ClassifyTokensIntake> Check(ClassifyTokensRequest request,
                                                    const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  size_t num_inputs() const { return request_.inputs.size(); }
  size_t input_bytes(size_t i) const { return request_.inputs[i].size(); }
  absl::Status StartInputs(EncodeJob& job);
  absl::Status TokenizeInput(size_t i, EncodeJob& job);
  absl::Status FinishInputs(EncodeJob& job);

 private:
  ClassifyTokensIntake(ClassifyTokensRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  ClassifyTokensRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
