// Checks and tokenizes a FillMask request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of the shape of GenerateIntake; HasInputs (tokenize_job.h).
class FillMaskIntake {
 public:
  using Request = FillMaskRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<FillMaskIntake> Check(FillMaskRequest request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  size_t num_inputs() const { return request_.inputs.size(); }
  size_t input_bytes(size_t i) const { return request_.inputs[i].size(); }
  absl::Status StartInputs(EncodeJob& job);
  absl::Status TokenizeInput(size_t i, EncodeJob& job);
  absl::Status FinishInputs(EncodeJob& job);

 private:
  FillMaskIntake(FillMaskRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  FillMaskRequest request_;
  const ModelFacts* model_;
  TokenIds targets_;                             // ascending
  std::vector<std::vector<int32_t>> positions_;  // of each input's masks
};

}  // namespace beamline
