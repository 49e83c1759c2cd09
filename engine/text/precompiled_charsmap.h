// SentencePiece's precompiled character map, as tokenizer.json files carry it.
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
  // blob: u32 size of the trie in bytes, the trie, then replacements that end with NUL.
  static absl::StatusOr<PrecompiledCharsmap> Parse(std::string_view blob);

  // The replacement of the *shortest* key that `chunk` begins with; what the reference looks up
  // too.
  std::optional<std::string_view> Find(std::string_view chunk) const;
  // The replacement of the longest key that `text` begins with, and the key's length; what
  // SentencePiece itself looks up. What is read is spent of `work`.
  std::optional<std::string_view> FindLongest(std::string_view text, size_t* length,
                                              TextWork& work) const;

  // Replaces grapheme clusters under six bytes as a whole, else character by character.
  absl::Status Normalize(AlignedText* text) const;

 private:
  // Calls visit(length, replacement) for each key that `text` begins with, shortest first, while it
  // returns true. How many bytes it read.
  template <typename Visit>
  size_t ForEachKey(std::string_view text, Visit visit) const;
  // Appends what takes the place of `part`; false, and nothing, when the map has no key for it.
  bool AppendReplacement(std::string_view part, std::vector<CharChange>* out) const;
  // Appends what a grapheme cluster becomes; false when that is the cluster.
  bool AppendCluster(std::string_view cluster, std::vector<CharChange>* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> changes_ascii_{};
};

// "Precompiled": the map in base64 under "precompiled_charsmap".
absl::StatusOr<std::unique_ptr<Normalizer>> MakePrecompiledNormalizer(const JsonNode& node);

}  // namespace beamline::text
