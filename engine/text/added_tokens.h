// Tokens that are found in the text as they stand, before the model sees it.
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
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;
  bool normalized = true;  // is looked for in the normalized text
  bool special = false;
  std::string decoded;   // what decoding writes: the content, as normalized; set by AddedTokens
  bool skipped = false;  // by decoding without special tokens; set by AddedTokens
};

// The array "added_tokens". A token that `vocabulary` has must be there under the same id.
absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const JsonNode& list,
                                                        const Vocabulary& vocabulary);

// Immutable, thread safe.
class AddedTokens {
 public:
  // Of tokens with equal content or id the last one counts; empty ones are left out. `normalizer`
  // may be null.
  static absl::StatusOr<AddedTokens> Make(std::vector<AddedToken> tokens,
                                          const Normalizer* normalizer);

  // Cuts the tokens out that are looked for in the text before, or after, normalization.
  void ExtractFromOriginal(SplitText* text) const { original_.Extract(tokens_, text); }
  void ExtractFromNormalized(SplitText* text) const { normalized_.Extract(tokens_, text); }

  const AddedToken* Find(int32_t id) const;
  const AddedToken* Find(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // Finds the leftmost, then longest of a set of tokens.
  class Matcher {
   public:
    // Pairs of the text to look for and an index into the list of tokens.
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
