// Converts text to token ids and back, with exactly the ids of Hugging Face's tokenizers.
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
  // Byte range of the token in the input text; empty (begin == end) for tokens that the template
  // adds.
  int32_t begin = 0;
  int32_t end = 0;
  bool special = false;
};

enum class Truncation : uint8_t { kNone, kRight, kLeft };

struct EncodeTextOptions {
  bool add_special_tokens = true;
  // Encoder-decoder models: the text is for the decoder; some tokenizers split it differently
  // (transformers: text_target).
  bool as_target = false;
  // Multilingual tokenizers: the text's language, one of languages(). Empty: the tokenizer's
  // default.
  std::string language = {};
  // Keeps at most max_tokens tokens, including special tokens, by dropping tokens at one side of
  // the text. kNone drops nothing; the caller checks the size. REQUIRES: max_tokens covers the
  // template's tokens.
  Truncation truncation = Truncation::kNone;
  int32_t max_tokens = 0;
};

// Two texts as one input.
struct PairIds {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // [ids], the type id of each token as the model gets it
};

// Converts a growing list of ids to text, piece by piece. The concatenation of all pieces,
// including Finish(), equals Decode of the whole list. Incomplete characters are never emitted.
class IncrementalDetokenizer {
 public:
  virtual ~IncrementalDetokenizer() = default;
  // The text that becomes certain with this token; often empty in the middle of a character.
  virtual std::string Append(int32_t id) = 0;
  // The text still held back, as Decode would end it.
  virtual std::string Finish() = 0;
  // A copy with the same state, for a sequence that forks.
  virtual std::unique_ptr<IncrementalDetokenizer> Clone() const = 0;
};

// Thread safe; immutable after loading.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT with the byte offset if text is not UTF-8.
  virtual absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                                    const EncodeTextOptions& options) const = 0;
  // Combines two texts, each tokenized by Encode without special tokens, in the pair template. With
  // truncation, at most max_tokens remain: the longer text loses tokens until both have equal
  // length, then both do (transformers: longest_first). nullopt if the tokenizer has no pair
  // template. REQUIRES: when truncating, max_tokens covers num_pair_template_tokens().
  virtual std::optional<PairIds> JoinPair(std::span<const int32_t> first,
                                          std::span<const int32_t> second, Truncation truncation,
                                          int32_t max_tokens) const {
    static_cast<void>(first), static_cast<void>(second);
    static_cast<void>(truncation), static_cast<void>(max_tokens);
    return std::nullopt;
  }
  // Number of tokens that the pair template adds; 0 if there is none.
  virtual int32_t num_pair_template_tokens() const { return 0; }
  // INVALID_ARGUMENT naming the id and the range if an id is outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                             bool skip_special_tokens) const = 0;
  // The text of tokens with these spellings, which need not be in the vocabulary (transformers:
  // convert_tokens_to_string). Without a decoder: joined by spaces.
  virtual std::string JoinSpellings(std::span<const std::string> spellings) const {
    std::string text;
    for (const std::string& spelling : spellings) text += (text.empty() ? "" : " ") + spelling;
    return text;
  }
  virtual std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip_special_tokens) const = 0;

  // Ids are 0 .. vocab_size() - 1, including added tokens; of separate vocabularies the larger one
  // counts.
  virtual int32_t vocab_size() const = 0;
  // Number of ids that an encoder must support to read texts, without rare special tokens.
  virtual int32_t source_vocab_size() const { return vocab_size(); }
  // Size of the decoder's own vocabulary, if it has one.
  virtual std::optional<int32_t> target_vocab_size() const { return std::nullopt; }
  // The spelling of a token in the vocabulary ("Ġthe", "##ing", "▁Haus"); empty if the id is
  // unused.
  virtual std::string TokenText(int32_t id) const = 0;
  virtual std::optional<int32_t> TokenId(std::string_view token_text) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // The tokens for unknown text, for a masked word, and for padding.
  virtual std::optional<int32_t> unknown_id() const { return std::nullopt; }
  virtual std::optional<int32_t> mask_id() const { return std::nullopt; }
  virtual std::optional<int32_t> pad_id() const { return std::nullopt; }
  // Whether the vocabulary marks pieces inside a word, like WordPiece's "##ing".
  virtual bool MarksContinuations() const { return false; }
  // Number of tokens that the template adds around one text.
  virtual int32_t num_template_tokens() const = 0;
  // Accepted values of EncodeTextOptions::language, sorted by name; empty if the tokens do not
  // depend on the language.
  virtual std::vector<std::string> languages() const { return {}; }
  // The token of a language.
  virtual std::optional<int32_t> LanguageId(std::string_view language) const {
    static_cast<void>(language);
    return std::nullopt;
  }
  // model_max_length of tokenizer_config.json; 0 if absent or over a billion (transformers writes
  // 1e30 for no limit).
  virtual int64_t model_max_length() const = 0;
  // "byte-level BPE", "WordPiece", "Unigram", "SentencePiece (Marian)".
  virtual std::string Kind() const = 0;
};

// Loads the tokenizer of a Hugging Face model folder: source.spm + vocab.json for Marian, else
// tokenizer.json, else a family's own files (vocab.txt, vocab.json + merges.txt, tokenizer.model,
// spiece.model of T5, vocab.json + sentencepiece.bpe.model of M2M100). Errors name the file and the
// fault. With `lower_case`, texts are lowercased before they are normalized, as
// sentence-transformers does for do_lower_case.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const CheckpointPath& folder,
                                                         bool lower_case = false);
// For a folder named by the operator.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& folder,
                                                         bool lower_case = false);

}  // namespace beamline
