// Added tokens: found literally in the text, before the tokenizer's model processes it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/text/byte_trie.h"
#include "engine/text/component_json.h"
#include "engine/text/normalizers.h"
#include "engine/text/split_text.h"
#include "engine/text/vocabulary.h"

namespace beamline::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // matches only if no word character is adjacent
  bool lstrip = false;       // also takes the white space to its left
  bool rstrip = false;
  bool normalized = true;  // searched in the normalized text
  bool special = false;
  std::string decoded;   // text written by decoding: the normalized content; set by AddedTokens
  bool skipped = false;  // left out when decoding without special tokens; set by AddedTokens
};

// Reads the array "added_tokens". A token that is also in `vocabulary` must have the same id there.
absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const JsonNode& list,
                                                        const Vocabulary& vocabulary);

// Immutable, thread safe.
class AddedTokens {
 public:
  // If tokens have equal content or id, the last one wins; empty ones are ignored. `normalizer` may
  // be null.
  static absl::StatusOr<AddedTokens> Make(std::vector<AddedToken> tokens,
                                          const Normalizer* normalizer);

  // Cuts out the tokens that are searched before, or after, normalization.
  void ExtractFromOriginal(SplitText* text) const { original_.Extract(tokens_, text); }
  void ExtractFromNormalized(SplitText* text) const { normalized_.Extract(tokens_, text); }

  const AddedToken* Find(int32_t id) const;
  const AddedToken* Find(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // Finds the leftmost, then longest of a set of tokens.
  class Matcher {
   public:
    // Each pattern is the text to find and an index into the list of tokens.
    absl::Status Build(const std::vector<std::pair<std::string, int32_t>>& patterns);
    void Extract(const std::vector<AddedToken>& tokens, SplitText* text) const;

   private:
    void CutPiece(const std::vector<AddedToken>& tokens, std::string_view text, const Piece& piece,
                  TextWork& work, std::vector<Piece>* out) const;

    ByteTrie trie_;
    std::array<bool, 256> starts_token_{};
    bool empty_ = true;
  };

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<int32_t, size_t> by_id_;
  absl::flat_hash_map<std::string, size_t> by_content_;
  Matcher original_;
  Matcher normalized_;
};

}  // namespace beamline::text
