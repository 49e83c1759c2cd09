// An Encode request on its way to a replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/encoding/encoding.h"
#include "engine/intake/prompts.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of the shape of GenerateIntake; HasInputs (tokenize_job.h).
class EncodeIntake {
 public:
  using Request = EncodeRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<EncodeIntake> Check(EncodeRequest&& request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  size_t num_inputs() const { return request_.inputs.size(); }
  size_t input_bytes(size_t i) const { return TextBytes(request_.inputs[i]); }
  absl::Status StartInputs(EncodeJob& job);
  absl::Status TokenizeInput(size_t i, EncodeJob& job);
  absl::Status FinishInputs(EncodeJob& job);

 private:
  EncodeIntake(EncodeRequest&& request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  // Of the answer's vectors; nullopt: as many as the model computes.
  std::optional<int32_t> Dimensions() const;
  Encoding MakeEncoding() const;

  EncodeRequest request_;
  const ModelFacts* model_;
  std::string_view prefix_;  // of each text, the model's
};

}  // namespace beamline
