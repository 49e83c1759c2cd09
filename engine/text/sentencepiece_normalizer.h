// SentencePiece's normalisation before segmentation. Source: SentencePiece, normalizer.cc.
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
    // [text.size() + 1]: the input byte of each byte of the text; the last entry is the input's
    // end.
    std::vector<int32_t> origins;
  };
  // INVALID_ARGUMENT if the result exceeds MaxRewrittenBytes; else the status of `work`. REQUIRES:
  // input is valid UTF-8.
  absl::StatusOr<Result> Normalize(std::string_view input, TextWork& work) const;

 private:
  class Run;  // one text
  // Returns the replacement of a prefix of `rest`; *length is the size of that prefix.
  std::string_view NormalizePrefix(std::string_view rest, size_t* length, TextWork& work) const;

  std::optional<PrecompiledCharsmap> map_;
  ByteTrie user_defined_;  // pieces that are not normalised
  bool add_dummy_prefix_ = true;
  bool remove_extra_whitespaces_ = true;
  bool escape_whitespaces_ = true;
  bool whitespace_as_suffix_ = false;
};

}  // namespace beamline::text
