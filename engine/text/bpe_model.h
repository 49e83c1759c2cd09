// Byte pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/text/token_model.h"
#include "engine/text/vocabulary.h"

namespace beamline::text {

struct BpeConfig {
  std::string unk_token;                  // empty: unknown characters are dropped
  std::string continuing_subword_prefix;  // before each symbol of a word except the first
  std::string end_of_word_suffix;         // after the last symbol of a word
  bool fuse_unk = false;                  // adjacent unknown characters become one token
  bool byte_fallback = false;             // unknown characters become tokens "<0xE2>"
  bool ignore_merges = false;             // a word that is itself a token needs no merges
  bool raw_bytes = false;                 // words are plain bytes; the vocabulary has their
                                          // spellings
};

using BpeMerges = std::vector<std::pair<std::string, std::string>>;

class BpeModel : public TokenModel {
 public:
  // INVALID_ARGUMENT naming the first merge whose parts or result are not in the vocabulary.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Make(Vocabulary vocabulary,
                                                        const BpeMerges& merges, BpeConfig config);
  static absl::StatusOr<std::unique_ptr<TokenModel>> FromJson(const JsonNode& node, bool raw_bytes);

  absl::Status Tokenize(std::string_view word, TextWork&,
                        std::vector<WordToken>* tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view Name() const override { return "BPE"; }

 private:
  // A part of the word, in a doubly linked list inside an array; merged symbols have length 0.
  struct Symbol {
    int32_t id;
    int32_t length;  // bytes
    int32_t previous;
    int32_t next;
  };
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  using Symbols = std::vector<Symbol>;

  BpeModel(Vocabulary vocabulary, BpeConfig config);

  absl::Status AddMerges(const BpeMerges& merges);
  std::optional<int32_t> FindWord(std::string_view word) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void MakeSymbols(std::string_view word, Symbols* symbols) const;
  bool AppendFallbackBytes(std::string_view text, Symbols* symbols) const;
  void MergeShort(Symbols* symbols) const;
  void MergeLong(Symbols* symbols) const;
  void Join(Symbols* symbols, int32_t position, int32_t id) const;

  Vocabulary vocabulary_;
  BpeConfig config_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  std::optional<int32_t> unk_id_;
  std::array<int32_t, 256> byte_ids_;    // raw_bytes: ids of single bytes; else of "<0x00>" ...;
                                         // -1: none
  std::vector<std::string> raw_tokens_;  // raw_bytes: the tokens' bytes; raw_ids_ points into them
  TokenMap raw_ids_;
  uint64_t cache_owner_;  // identifies this model in the thread's word cache
};

}  // namespace beamline::text
