// How a model that writes judges a document: the text that it reads, and the two tokens of which it
// would write the one or the other next (the settings rerank_template and rerank_tokens).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/text/tokenizer.h"
#include "engine/transformer/spec.h"

namespace beamline {

class RerankPrompt {
 public:
  // Null where neither setting is given. INVALID_ARGUMENT naming the setting, its value and what is
  // accepted: of a model that does not write, one without the other, a template without exactly one
  // {query} and one {document}, tokens that are not two, each its own.
  static absl::StatusOr<std::shared_ptr<const RerankPrompt>> Make(const ModelOptions& options,
                                                                  const Tokenizer& tokenizer,
                                                                  const TransformerSpec& spec);

  // The template with both texts in it.
  struct Filled {
    std::string text;
    size_t document_begin = 0;  // bytes of `text`
    size_t document_end = 0;
  };
  Filled Fill(std::string_view query, std::string_view document) const;
  // Bytes of the template itself.
  size_t size() const { return parts_[0].size() + parts_[1].size() + parts_[2].size(); }

  // The token of a document that answers the query, and of one that does not.
  int32_t positive_id() const { return positive_id_; }
  int32_t negative_id() const { return negative_id_; }

 private:
  RerankPrompt() = default;

  std::array<std::string, 3> parts_;  // before, between and behind the two texts
  bool document_first_ = false;
  int32_t positive_id_ = 0;
  int32_t negative_id_ = 0;
};

}  // namespace beamline
