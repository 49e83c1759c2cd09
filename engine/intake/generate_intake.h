// Checks and tokenizes a Generate request. Additional output (prompt log-probabilities, echo) is
// implemented here by decorators around the group's decoder; later code need not know of it.
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

// Every kind of request has an intake of this shape, or HasInputs (tokenize_job.h) in place of
// Complete.
class GenerateIntake {
 public:
  using Request = GenerateRequest;
  using Sink = GenerateSink;
  using Result = GenerateResult;
  using Job = Group;

  // Rejects invalid requests before any work: INVALID_ARGUMENT names the field, the value and the
  // range. The model must outlive the intake.
  static absl::StatusOr<GenerateIntake> Check(GenerateRequest request, const ModelFacts& model);

  size_t text_bytes() const;  // text to tokenize, in bytes
  // Steps until the answer is useful to such a sink; 0: only known after tokenizing.
  int64_t steps_to_use(const GenerateSink& sink) const;
  // Creates the job that answers `sink`; Complete must follow.
  std::unique_ptr<Group> Start(Acceptance acceptance, std::shared_ptr<GenerateSink> sink) const;
  // Tokenizes, and makes the checks that need tokens. An error is the request's answer.
  absl::Status Complete(Group& group);

 private:
  GenerateIntake(GenerateRequest request, ResolvedDecoding decoding, const ModelFacts& model)
      : request_(std::move(request)), decoding_(std::move(decoding)), model_(&model) {}

  // The first tokens of the encoder and the decoder.
  absl::StatusOr<TokenIds> Tokenize(Group& group) const;
  absl::Status CheckCacheFits(const Group& group) const;

  GenerateRequest request_;
  ResolvedDecoding decoding_;
  const ModelFacts* model_;
};

}  // namespace beamline
