// The "pre_tokenizer" of a tokenizer.json: splits text into the words that the model processes one
// at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"
#include "engine/text/split_text.h"

namespace beamline::text {

// Immutable, thread safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual absl::Status Split(SplitText* text) const = 0;
};

struct PreTokenizerAndMode {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  // True if the last step is ByteLevel and `allow_raw_bytes` was set. The pieces then keep their
  // bytes, instead of spelling them in the byte alphabet, and the model must expect that.
  bool raw_bytes = false;
};

absl::StatusOr<PreTokenizerAndMode> MakePreTokenizer(const JsonNode& node, bool allow_raw_bytes);

}  // namespace beamline::text
