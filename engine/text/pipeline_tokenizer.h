// The tokenizer that a tokenizer.json describes: normalizer, pre-tokenizer, model, template,
// decoder.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/added_tokens.h"
#include "engine/text/decode_stage.h"
#include "engine/text/normalizers.h"
#include "engine/text/post_processor.h"
#include "engine/text/pre_tokenizers.h"
#include "engine/text/token_model.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"

namespace beamline::text {

class PipelineTokenizer : public Tokenizer {
 public:
  // `json` is a tokenizer.json; `place` names it in errors.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Make(const nlohmann::json& json,
                                                         const std::string& place,
                                                         const TokenizerConfig& config);

  absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                            const EncodeTextOptions& options) const override;
  std::optional<PairIds> JoinPair(std::span<const int32_t> first, std::span<const int32_t> second,
                                  Truncation truncation, int32_t max_tokens) const override;
  int32_t num_pair_template_tokens() const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                     bool skip_special_tokens) const override;
  std::string JoinSpellings(std::span<const std::string> spellings) const override;
  std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip_special_tokens) const override;
  int32_t vocab_size() const override { return vocab_size_; }
  int32_t source_vocab_size() const override { return listed_size_; }
  std::string TokenText(int32_t id) const override;
  std::optional<int32_t> TokenId(std::string_view token_text) const override;
  bool IsSpecial(int32_t id) const override;
  std::optional<int32_t> unknown_id() const override { return unknown_id_; }
  std::optional<int32_t> mask_id() const override { return mask_id_; }
  std::optional<int32_t> pad_id() const override { return pad_id_; }
  bool MarksContinuations() const override { return model_->Name() == "WordPiece"; }
  int32_t num_template_tokens() const override;
  int64_t model_max_length() const override { return model_max_length_; }
  std::string Kind() const override;

 private:
  PipelineTokenizer() = default;

  absl::Status AddTokens(const JsonNode& root, const TokenizerConfig& config);
  absl::Status MakeDecoder(const JsonNode& root, const TokenizerConfig& config);
  // The text's own tokens without template, and the number of spaces in each token's spelling
  // (null: not needed).
  absl::Status EncodeText(std::string_view text, std::vector<Token>* tokens,
                          std::vector<TokenSpaces>* spaces) const;
  // REQUIRES: at least as many spaces as tokens.
  void TrimOffsets(std::string_view text, std::span<const TokenSpaces> spaces,
                   std::vector<Token>* tokens) const;

  std::unique_ptr<Normalizer> normalizer_;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer_;  // may be null
  std::unique_ptr<TokenModel> model_;
  AddedTokens added_tokens_;
  PostProcessor post_processor_;
  DecodeChain decoder_;                // in its initial state; copied for each use
  std::optional<DecodeChain> joiner_;  // decoder_ without its clean-up, if it has one
  std::optional<int32_t> unknown_id_, mask_id_, pad_id_;
  std::vector<TokenSpaces> token_spaces_;  // per token of the model; only if offsets are trimmed
  bool byte_level_ = false;
  int32_t vocab_size_ = 0;
  int32_t listed_size_ = 0;  // without special tokens that have no id in the files
  int64_t model_max_length_ = 0;
};

}  // namespace beamline::text
