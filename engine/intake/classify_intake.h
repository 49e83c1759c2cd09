// Checks and tokenizes a Classify or Rerank request.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of the shape of GenerateIntake; HasInputs (tokenize_job.h).
class ClassifyIntake {
 public:
  using Request = ClassifyRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<ClassifyIntake> Check(ClassifyRequest request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  size_t num_inputs() const { return request_.inputs.size(); }
  size_t input_bytes(size_t i) const;
  absl::Status StartInputs(EncodeJob& job);
  absl::Status TokenizeInput(size_t i, EncodeJob& job);
  absl::Status FinishInputs(EncodeJob& job);

 private:
  ClassifyIntake(ClassifyRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  // "inputs[2]"; with a query: "documents[2]".
  std::string FieldOf(size_t input) const;
  bool has_pairs() const;
  // The ids of an input of two texts, at least one, and their types where the model has types.
  absl::Status SetPair(size_t input, const TokenIds& first, const TokenIds& second,
                       EncodeJob& job) const;
  // Of a decoder's classifier, which reads the class before padding at the end: as nothing before
  // it sees what comes later, it need not be computed. One token stays, whatever it is.
  void DropPadding(TokenIds& ids) const;

  ClassifyRequest request_;
  const ModelFacts* model_;
  TokenIds query_;  // of the request's
};

}  // namespace beamline
