// Checks and tokenizes a FillMask request.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Has the interface of GenerateIntake.
class FillMaskIntake {
 public:
  using Request = FillMaskRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<FillMaskIntake> Check(FillMaskRequest request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  absl::Status Complete(EncodeJob& job);

 private:
  FillMaskIntake(FillMaskRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  FillMaskRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
