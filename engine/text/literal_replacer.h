// Replaces every occurrence of a string in a stream, with the same result as in the whole text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/decode_stage.h"

namespace beamline::text {

class LiteralReplacer {
 public:
  // REQUIRES: !pattern.empty().
  LiteralReplacer(std::string pattern, std::string content);

  // Appends to *out the text that cannot be part of a later match.
  void Push(std::string_view text, std::string* out);
  void Finish(std::string* out);

 private:
  std::string pattern_;
  std::string content_;
  std::vector<size_t> fallback_;  // Knuth-Morris-Pratt: longest border of each prefix
  size_t matched_ = 0;  // length of the prefix of pattern_ at the end of the text so far; held back
};

// Several replacements, each applied to the whole result of the previous one.
class ReplaceAllStage : public DecodeStage {
 public:
  explicit ReplaceAllStage(std::vector<LiteralReplacer> replacers);
  void Transform(const Fragment& in, bool at_end, Fragment* out) override;
  std::unique_ptr<DecodeStage> Clone() const override;

 private:
  void PushThrough(std::string_view text, bool end_token, std::string* out);

  std::vector<LiteralReplacer> replacers_;
  std::string front_;
  std::string back_;
};

// transformers' clean_up_tokenization: " ." becomes "." and so on.
std::unique_ptr<DecodeStage> MakeCleanUpStage();

}  // namespace beamline::text
