// SentencePiece's own normalisation before segmentation. Source: SentencePiece, normalizer.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/byte_trie.h"
#include "engine/text/precompiled_charsmap.h"
#include "engine/text/sentencepiece_file.h"
#include "engine/text/text_work.h"

namespace beamline::text {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // "▁"

class SentencePieceNormalizer {
 public:
  static absl::StatusOr<SentencePieceNormalizer> Create(const SentencePieceFile& file);

  struct Result {
    std::string text;
    // [text.size() + 1]: the byte of the input that each byte of the text stands for; last the end.
    std::vector<int32_t> origins;
  };
  // INVALID_ARGUMENT when the file makes more of the input than MaxRewrittenBytes, or what `work`
  // says. REQUIRES: input is valid UTF-8.
  absl::StatusOr<Result> Normalize(std::string_view input, TextWork& work) const;

 private:
  class Run;  // one text
  // What the front of `rest` becomes, and how many bytes of it that takes.
  std::string_view NormalizePrefix(std::string_view rest, size_t* length, TextWork& work) const;

  std::optional<PrecompiledCharsmap> map_;
  ByteTrie user_defined_;  // pieces that are taken as they are
  bool add_dummy_prefix_ = true;
  bool remove_extra_whitespaces_ = true;
  bool escape_whitespaces_ = true;
  bool whitespace_as_suffix_ = false;
};

}  // namespace beamline::text
