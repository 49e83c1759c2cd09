// Text to token ids and back, with the exact ids of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

struct Token {
  int32_t id = 0;
  // Byte range of the input text that the token stands for; empty (begin == end) for tokens that
  // the template adds.
  int32_t begin = 0;
  int32_t end = 0;
  bool special = false;
};

enum class Truncation : uint8_t { kNone, kRight, kLeft };

struct EncodeTextOptions {
  bool add_special_tokens = true;
  // Of an encoder-decoder model: the text is one of its decoder's, which some tokenizers split in
  // another way (transformers: text_target).
  bool as_target = false;
  // Of a tokenizer with languages: the text's, one of languages(). Empty: the tokenizer's own.
  std::string language = {};
  // Keeps at most max_tokens tokens, special tokens included, by dropping from one side of the
  // text. kNone never drops: the caller compares sizes. REQUIRES: max_tokens covers the template's
  // own tokens.
  Truncation truncation = Truncation::kNone;
  int32_t max_tokens = 0;
};

// Two texts as one input.
struct PairIds {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // [ids], which text each belongs to, as the model is told
};

// Turns a growing list of ids into text, piece by piece. The concatenation of all pieces, Finish()
// included, equals Decode of the whole list; half a character is never emitted.
class IncrementalDetokenizer {
 public:
  virtual ~IncrementalDetokenizer() = default;
  // The text that became certain with this token; often empty in the middle of a character.
  virtual std::string Append(int32_t id) = 0;
  // What is still held back, as Decode would end it.
  virtual std::string Finish() = 0;
  // A copy in the same state, for a sequence that forks.
  virtual std::unique_ptr<IncrementalDetokenizer> Clone() const = 0;
};

// Thread safe; immutable after loading.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT with the byte offset when text is not UTF-8.
  virtual absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                                    const EncodeTextOptions& options) const = 0;
  // The tokens of two texts, each as Encode gives it without special tokens, in the template of two
  // texts. When truncating, at most max_tokens remain: the longer text loses tokens until both are
  // as long, then both do (transformers: longest_first). Nothing where the tokenizer has no such
  // template. REQUIRES: max_tokens covers num_pair_template_tokens() when truncating.
  virtual std::optional<PairIds> JoinPair(std::span<const int32_t> first,
                                          std::span<const int32_t> second, Truncation truncation,
                                          int32_t max_tokens) const {
    static_cast<void>(first), static_cast<void>(second);
    static_cast<void>(truncation), static_cast<void>(max_tokens);
    return std::nullopt;
  }
  // How many tokens that template adds; 0 without one.
  virtual int32_t num_pair_template_tokens() const { return 0; }
  // INVALID_ARGUMENT naming the id and the range when an id is outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                             bool skip_special_tokens) const = 0;
  // The text of tokens that are spelled like this, which need be none of the vocabulary
  // (transformers: convert_tokens_to_string). Without a decoder, joined by spaces.
  virtual std::string JoinSpellings(std::span<const std::string> spellings) const {
    std::string text;
    for (const std::string& spelling : spellings) text += (text.empty() ? "" : " ") + spelling;
    return text;
  }
  virtual std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip_special_tokens) const = 0;

  // Ids are 0 .. vocab_size() - 1, added tokens included; of separate vocabularies those of the
  // larger one.
  virtual int32_t vocab_size() const = 0;
  // How many ids an encoder must know to take texts, rare special tokens aside.
  virtual int32_t source_vocab_size() const { return vocab_size(); }
  // Of the vocabulary that only the decoder's side has, where there is one.
  virtual std::optional<int32_t> target_vocab_size() const { return std::nullopt; }
  // The vocabulary's own spelling of a token ("Ġthe", "##ing", "▁Haus"); empty when the id is
  // unused.
  virtual std::string TokenText(int32_t id) const = 0;
  virtual std::optional<int32_t> TokenId(std::string_view token_text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // The tokens that stand for what the vocabulary does not have, for a word to be guessed, and for
  // nothing.
  virtual std::optional<int32_t> unknown_id() const { return std::nullopt; }
  virtual std::optional<int32_t> mask_id() const { return std::nullopt; }
  virtual std::optional<int32_t> pad_id() const { return std::nullopt; }
  // Of a vocabulary whose pieces within a word are marked, as WordPiece's "##ing".
  virtual bool MarksContinuations() const { return false; }
  // How many tokens the template adds around one text.
  virtual int32_t num_template_tokens() const = 0;
  // What EncodeTextOptions::language takes, in the order of their names; empty where a text's
  // tokens do not tell its language.
  virtual std::vector<std::string> languages() const { return {}; }
  // The token that names a language.
  virtual std::optional<int32_t> LanguageId(std::string_view language) const {
    static_cast<void>(language);
    return std::nullopt;
  }
  // model_max_length of tokenizer_config.json; 0 when absent or over a billion (transformers writes
  // 1e30 for no limit).
  virtual int64_t model_max_length() const = 0;
  // "byte-level BPE", "WordPiece", "Unigram", "SentencePiece (Marian)".
  virtual std::string Kind() const = 0;
};

// Loads the tokenizer of a Hugging Face model folder: source.spm + vocab.json for Marian, else
// tokenizer.json, else a family's own files (vocab.txt, vocab.json + merges.txt, tokenizer.model,
// spiece.model of T5, vocab.json + sentencepiece.bpe.model of M2M100).
// Errors name the file and the fault. With `lower_case` texts are lowercased before they are
// normalized, as sentence-transformers does for do_lower_case.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const CheckpointPath& folder,
                                                         bool lower_case = false);
// Of a folder that the operator names.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& folder,
                                                         bool lower_case = false);

}  // namespace beamline
