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

// Has the interface of GenerateIntake.
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

  // "inputs[2]"; with a query: "documents[2]".
  std::string FieldOf(size_t input) const;
  // Appends the ids of one input (at least one), and their type ids if the model uses them.
  absl::Status Append(size_t input, const TokenIds& query, EncodeJob& job) const;
  absl::Status AppendPair(const std::string& field, const TokenIds& first, const TokenIds& second,
                          EncodeJob& job) const;
  // For a decoder's classifier: drops padding at the end. The class is read at the last token
  // before it, which cannot see later tokens. At least one token is kept.
  void DropPadding(TokenIds& ids) const;

  ClassifyRequest request_;
  const ModelFacts* model_;
};

}  // namespace beamline
