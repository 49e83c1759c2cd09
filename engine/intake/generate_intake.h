// A Generate request on its way to a replica. What is asked beside the plain answer (the prompt's
// log-probabilities, an echo of it) is put around the group's decoder here; nobody behind knows of
// it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/group.h"

namespace beamline {

// Every kind of request has an intake of this shape.
class GenerateIntake {
 public:
  using Request = GenerateRequest;
  using Sink = GenerateSink;
  using Result = GenerateResult;
  using Job = Group;

  // Refuses what can be refused before any work is spent: INVALID_ARGUMENT naming the field, the
  // value and the range. The model outlives the intake.
  static absl::StatusOr<GenerateIntake> Check(GenerateRequest request, const ModelFacts& model);

  size_t text_bytes() const;  // to be tokenized
  // That the request may take until its answer is of use to such a sink; 0: only its tokens tell.
  int64_t steps_to_use(const GenerateSink& sink) const;
  // The job that answers `sink`, to be completed.
  std::unique_ptr<Group> Start(Acceptance acceptance, std::shared_ptr<GenerateSink> sink) const;
  // Tokenizes, and checks what only that can show. An error is the request's answer.
  absl::Status Complete(Group& group);

 private:
  GenerateIntake(GenerateRequest request, ResolvedDecoding decoding, const ModelFacts& model)
      : request_(std::move(request)), decoding_(std::move(decoding)), model_(&model) {}

  // The tokens that the encoder and the decoder begin with.
  absl::StatusOr<TokenIds> Tokenize(Group& group) const;
  absl::Status CheckCacheFits(const Group& group) const;

  GenerateRequest request_;
  ResolvedDecoding decoding_;
  const ModelFacts* model_;
};

}  // namespace beamline
