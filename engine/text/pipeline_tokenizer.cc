#include "engine/text/pipeline_tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "engine/text/decoders.h"
#include "engine/text/encode_text.h"
#include "engine/text/literal_replacer.h"
#include "engine/text/split_text.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

// Passes the spellings of ids through a copy of the tokenizer's decoder.
class PipelineDetokenizer : public IncrementalDetokenizer {
 public:
  PipelineDetokenizer(const Vocabulary* vocabulary, const AddedTokens* added_tokens,
                      const DecodeChain& chain, bool skip_special_tokens)
      : vocabulary_(vocabulary),
        added_tokens_(added_tokens),
        chain_(chain),
        skip_special_tokens_(skip_special_tokens) {}

  std::string Append(int32_t id) override {
    std::string text;
    AppendTo(id, &text);
    return text;
  }
  std::string Finish() override {
    std::string text;
    chain_.Finish(&text);
    return text;
  }
  std::unique_ptr<IncrementalDetokenizer> Clone() const override {
    return std::make_unique<PipelineDetokenizer>(*this);
  }

  // Unused ids have no text.
  void AppendTo(int32_t id, std::string* text) {
    if (const AddedToken* token = added_tokens_->Find(id)) {
      if (!token->skipped || !skip_special_tokens_) chain_.Push(token->decoded, text);
    } else if (id >= 0 && id < vocabulary_->size() && !vocabulary_->Token(id).empty()) {
      chain_.Push(vocabulary_->Token(id), text);
    }
  }

 private:
  const Vocabulary* vocabulary_;
  const AddedTokens* added_tokens_;
  DecodeChain chain_;
  bool skip_special_tokens_;
};

bool MentionsByteLevel(const JsonNode& root, const char* component) {
  return root.Has(component) &&
         root.value()[component].dump().find("\"ByteLevel\"") != std::string::npos;
}

// The token with a role: from the files, else the first of the names that tokenizer classes usually
// use.
std::optional<int32_t> RoleId(const Tokenizer& tokenizer, const TokenizerConfig& config,
                              const char* role, std::initializer_list<std::string_view> usual) {
  if (const std::string token = config.Role(role, ""); !token.empty()) {
    return tokenizer.TokenId(token);
  }
  for (const std::string_view name : usual) {
    if (const auto id = tokenizer.TokenId(name); id.has_value()) return id;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> PipelineTokenizer::Make(const nlohmann::json& json,
                                                                   const std::string& place,
                                                                   const TokenizerConfig& config) {
  const JsonNode root(json, place);
  std::unique_ptr<PipelineTokenizer> made(new PipelineTokenizer);
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode model, root.Object("model"));
  bool raw_bytes = false;
  if (root.Has("pre_tokenizer")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("pre_tokenizer"));
    BEAMLINE_ASSIGN_OR_RETURN(PreTokenizerAndMode pre_tokenizer,
                              MakePreTokenizer(node, CanTakeRawBytes(model)));
    made->pre_tokenizer_ = std::move(pre_tokenizer.pre_tokenizer);
    raw_bytes = pre_tokenizer.raw_bytes;
  }
  if (root.Has("normalizer")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("normalizer"));
    BEAMLINE_ASSIGN_OR_RETURN(made->normalizer_, MakeNormalizer(node));
  }
  BEAMLINE_ASSIGN_OR_RETURN(made->model_, MakeTokenModel(model, raw_bytes));
  made->byte_level_ =
      MentionsByteLevel(root, "pre_tokenizer") || MentionsByteLevel(root, "normalizer");
  made->model_max_length_ = config.model_max_length;
  BEAMLINE_RETURN_IF_ERROR(made->AddTokens(root, config));
  if (root.Has("post_processor")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("post_processor"));
    BEAMLINE_ASSIGN_OR_RETURN(made->post_processor_, MakePostProcessor(node, made->vocab_size_));
  }
  if (!config.gives_types) {
    for (PairPiece& piece : made->post_processor_.pair) piece.type = 0;
  }
  if (!made->post_processor_.trimmings.empty()) {
    made->token_spaces_.reserve(static_cast<size_t>(made->vocab_size_));
    for (int32_t id = 0; id < made->vocab_size_; ++id) {
      const Vocabulary& vocabulary = made->model_->vocabulary();
      const bool known = id < vocabulary.size();
      made->token_spaces_.push_back(known ? CountSpaces(vocabulary.Token(id)) : TokenSpaces());
    }
  }
  BEAMLINE_RETURN_IF_ERROR(made->MakeDecoder(root, config));
  made->unknown_id_ = RoleId(*made, config, "unk_token", {"[UNK]", "<unk>"});
  made->pad_id_ = RoleId(*made, config, "pad_token", {"[PAD]", "<pad>"});
  made->mask_id_ = RoleId(*made, config, "mask_token", {"[MASK]", "<mask>"});
  return made;
}

absl::Status PipelineTokenizer::AddTokens(const JsonNode& root, const TokenizerConfig& config) {
  const Vocabulary& vocabulary = model_->vocabulary();
  std::vector<AddedToken> tokens;
  if (root.Has("added_tokens")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, root.Array("added_tokens"));
    BEAMLINE_ASSIGN_OR_RETURN(tokens, ReadAddedTokens(list, vocabulary));
  }
  absl::flat_hash_set<std::string> known;
  for (const AddedToken& token : tokens) known.insert(token.content);
  vocab_size_ = vocabulary.size();
  for (const AddedToken& token : tokens) vocab_size_ = std::max(vocab_size_, token.id + 1);
  // As in transformers: a token that tokenizer.json does not have gets an id after all others,
  // whatever id tokenizer_config.json gives it.
  const auto add_missing = [&](AddedToken token) {
    if (!known.insert(token.content).second) return;
    const std::optional<int32_t> id = vocabulary.Find(token.content);
    token.id = id.has_value() ? *id : vocab_size_++;
    tokens.push_back(std::move(token));
  };
  std::vector<AddedToken> configured = config.added_tokens;
  std::ranges::stable_sort(configured, {}, &AddedToken::id);
  for (const AddedToken& token : configured) add_missing(token);
  listed_size_ = vocab_size_;
  // A token with a role is special even if tokenizer.json does not list it.
  for (const AddedToken& token : config.special_tokens) add_missing(token);
  BEAMLINE_ASSIGN_OR_RETURN(added_tokens_, AddedTokens::Make(std::move(tokens), normalizer_.get()));
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::MakeDecoder(const JsonNode& root, const TokenizerConfig& config) {
  if (root.Has("decoder")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("decoder"));
    BEAMLINE_RETURN_IF_ERROR(AddDecoder(node, &decoder_));
  } else {
    decoder_.Add(MakeJoinStage());
  }
  // transformers does not clean up BPE texts: their spaces are exact.
  if (config.clean_up_tokenization_spaces && model_->Name() != "BPE") {
    joiner_.emplace(decoder_);
    decoder_.Add(MakeFuseStage());
    decoder_.Add(MakeCleanUpStage());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Token>> PipelineTokenizer::Encode(
    std::string_view text, const EncodeTextOptions& options) const {
  BEAMLINE_RETURN_IF_ERROR(CheckText(text));
  std::vector<Token> tokens;
  std::vector<TokenSpaces> spaces;
  BEAMLINE_RETURN_IF_ERROR(
      EncodeText(text, &tokens, post_processor_.trimmings.empty() ? nullptr : &spaces));
  const size_t num_tokens = tokens.size();
  Truncate(options, options.add_special_tokens ? num_template_tokens() : 0, &tokens);
  if (!spaces.empty()) {
    const size_t dropped = options.truncation == Truncation::kLeft ? num_tokens - tokens.size() : 0;
    TrimOffsets(text, std::span(spaces).subspan(dropped), &tokens);
  }
  if (options.add_special_tokens) {
    AddTemplate(post_processor_.prefix, post_processor_.suffix, text.size(), &tokens);
  }
  return tokens;
}

std::optional<PairIds> PipelineTokenizer::JoinPair(std::span<const int32_t> first,
                                                   std::span<const int32_t> second,
                                                   Truncation truncation,
                                                   int32_t max_tokens) const {
  if (post_processor_.pair.empty()) return std::nullopt;
  return text::JoinPair(
      post_processor_.pair,
      TruncatePair({first, second}, truncation, max_tokens - num_pair_template_tokens()));
}

int32_t PipelineTokenizer::num_pair_template_tokens() const {
  return static_cast<int32_t>(
      std::ranges::count(post_processor_.pair, PairPiece::Kind::kToken, &PairPiece::kind));
}

absl::Status PipelineTokenizer::EncodeText(std::string_view text, std::vector<Token>* tokens,
                                           std::vector<TokenSpaces>* spaces) const {
  SplitText split(text);
  added_tokens_.ExtractFromOriginal(&split);
  if (normalizer_ != nullptr) {
    absl::Status status;
    split.RewritePieces([&](AlignedText* piece) {
      if (status.ok()) status = normalizer_->Normalize(piece);
    });
    BEAMLINE_RETURN_IF_ERROR(status);
  }
  added_tokens_.ExtractFromNormalized(&split);
  if (pre_tokenizer_ != nullptr) BEAMLINE_RETURN_IF_ERROR(pre_tokenizer_->Split(&split));
  BEAMLINE_RETURN_IF_ERROR(split.work().status());

  if (split.has_outgrown()) {
    return absl::InvalidArgumentError(
        fmt::format("the tokenizer's normalizer or pre-tokenizer makes more than {} bytes of the "
                    "text's {}",
                    MaxRewrittenBytes(text.size()), text.size()));
  }
  tokens->reserve(split.pieces().size() + split.pieces().size() / 2);
  std::vector<WordToken> word_tokens;
  for (const Piece& piece : split.pieces()) {
    if (piece.finished()) {
      const ByteRange source = split.Source(piece.begin, piece.end);
      tokens->push_back({piece.token_id, source.begin, source.end, IsSpecial(piece.token_id)});
      if (spaces != nullptr) spaces->push_back(CountSpaces(split.PieceText(piece)));
      continue;
    }
    word_tokens.clear();
    if (!split.work().Spend(static_cast<size_t>(piece.end - piece.begin))) {
      return split.work().status();
    }
    BEAMLINE_RETURN_IF_ERROR(model_->Tokenize(split.PieceText(piece), split.work(), &word_tokens));
    for (const WordToken& token : word_tokens) {
      const int32_t begin = piece.begin + token.begin, end = piece.begin + token.end;
      const ByteRange source = begin < end ? split.Source(begin, end) : ByteRange{begin, begin};
      tokens->push_back({token.id, source.begin, source.end, IsSpecial(token.id)});
      if (spaces == nullptr) continue;
      spaces->push_back(model_->SpelledAsText(token.id)
                            ? CountSpaces(split.text().substr(begin, end - begin))
                            : token_spaces_[static_cast<size_t>(token.id)]);
    }
  }
  return absl::OkStatus();
}

void PipelineTokenizer::TrimOffsets(std::string_view text, std::span<const TokenSpaces> spaces,
                                    std::vector<Token>* tokens) const {
  for (const OffsetTrimming& trimming : post_processor_.trimmings) {
    for (size_t i = 0; i < tokens->size(); ++i) {
      Token& token = (*tokens)[i];
      TrimSpaces(trimming, spaces[i], i == 0, text, &token.begin, &token.end);
    }
  }
}

absl::StatusOr<std::string> PipelineTokenizer::Decode(std::span<const int32_t> ids,
                                                      bool skip_special_tokens) const {
  BEAMLINE_RETURN_IF_ERROR(CheckIds(ids, vocab_size_));
  PipelineDetokenizer detokenizer(&model_->vocabulary(), &added_tokens_, decoder_,
                                  skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) detokenizer.AppendTo(id, &text);
  text += detokenizer.Finish();
  return text;
}

std::string PipelineTokenizer::JoinSpellings(std::span<const std::string> spellings) const {
  DecodeChain chain(joiner_.has_value() ? *joiner_ : decoder_);
  std::string text;
  for (const std::string& spelling : spellings) chain.Push(spelling, &text);
  chain.Finish(&text);
  return text;
}

std::unique_ptr<IncrementalDetokenizer> PipelineTokenizer::StartDecoding(
    bool skip_special_tokens) const {
  return std::make_unique<PipelineDetokenizer>(&model_->vocabulary(), &added_tokens_, decoder_,
                                               skip_special_tokens);
}

std::string PipelineTokenizer::TokenText(int32_t id) const {
  if (const AddedToken* token = added_tokens_.Find(id)) return token->content;
  const Vocabulary& vocabulary = model_->vocabulary();
  return id >= 0 && id < vocabulary.size() ? vocabulary.Token(id) : std::string();
}

std::optional<int32_t> PipelineTokenizer::TokenId(std::string_view token_text) const {
  if (const AddedToken* token = added_tokens_.Find(token_text)) return token->id;
  return model_->vocabulary().Find(token_text);
}

bool PipelineTokenizer::IsSpecial(int32_t id) const {
  const AddedToken* token = added_tokens_.Find(id);
  return token != nullptr && token->special;
}

int32_t PipelineTokenizer::num_template_tokens() const {
  return static_cast<int32_t>(post_processor_.prefix.size() + post_processor_.suffix.size());
}

std::string PipelineTokenizer::Kind() const {
  return fmt::format("{}{}", byte_level_ ? "byte-level " : "", model_->Name());
}

}  // namespace beamline::text
