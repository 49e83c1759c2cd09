// A Classify or Rerank request on its way to a replica.
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

// Of the shape of GenerateIntake.
class ClassifyIntake {
 public:
  using Request = ClassifyRequest;
  using Sink = EncodeSink;
  using Result = EncodeResult;
  using Job = EncodeJob;

  static absl::StatusOr<ClassifyIntake> Check(ClassifyRequest request, const ModelFacts& model);

  size_t text_bytes() const;
  std::unique_ptr<EncodeJob> Start(Acceptance acceptance, std::shared_ptr<EncodeSink> sink) const;
  absl::Status Complete(EncodeJob& job);

 private:
  ClassifyIntake(ClassifyRequest request, const ModelFacts& model)
      : request_(std::move(request)), model_(&model) {}

  // "inputs[2]", or "documents[2]" of a query.
  std::string FieldOf(size_t input) const;
  // The ids of one input, at least one, and their types where the model has types.
  absl::Status Append(size_t input, const TokenIds& query, EncodeJob& job) const;
  absl::Status AppendPair(const std::string& field, const TokenIds& first, const TokenIds& second,
                          EncodeJob& job) const;
  // Of a decoder's classifier, which reads the class before padding at the end: as nothing before
  // it sees what comes later, it need not be computed. One token stays, whatever it is.
  void DropPadding(TokenIds& ids) const;

  ClassifyRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
