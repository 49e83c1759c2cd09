// SentencePiece's precompiled character map, as contained in tokenizer.json files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/normalizers.h"

namespace beamline::text {

// A double-array trie (Darts-clone) from character sequences to replacements.
class PrecompiledCharsmap {
 public:
  // blob: u32 size of the trie in bytes, the trie, then NUL-terminated replacements.
  static absl::StatusOr<PrecompiledCharsmap> Parse(std::string_view blob);

  // The replacement of the *shortest* key that is a prefix of `chunk`; the reference uses this,
  // too.
  std::optional<std::string_view> Find(std::string_view chunk) const;
  // The replacement of the longest key that is a prefix of `text`, and the key's length;
  // SentencePiece itself uses this. Bytes read are spent from `work`.
  std::optional<std::string_view> FindLongest(std::string_view text, size_t* length,
                                              TextWork& work) const;

  // Replaces grapheme clusters under six bytes as a whole, others character by character.
  absl::Status Normalize(AlignedText* text) const;

 private:
  // Calls visit(length, replacement) for each key that is a prefix of `text`, shortest first, until
  // it returns false. Returns the number of bytes read.
  template <typename Visit>
  size_t ForEachKey(std::string_view text, Visit visit) const;
  // Appends the replacement of `part`; false, without appending, if the map has no key for it.
  bool AppendReplacement(std::string_view part, std::vector<CharChange>* out) const;
  // Appends the replacement of a grapheme cluster; false if it does not change.
  bool AppendCluster(std::string_view cluster, std::vector<CharChange>* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> changes_ascii_{};
};

// The normalizer "Precompiled": its "precompiled_charsmap" is the map in base64.
absl::StatusOr<std::unique_ptr<Normalizer>> MakePrecompiledNormalizer(const JsonNode& node);

}  // namespace beamline::text
