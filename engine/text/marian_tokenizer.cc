#include "engine/text/marian_tokenizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/text/added_tokens.h"
#include "engine/text/component_json.h"
#include "engine/text/encode_text.h"
#include "engine/text/error_line.h"
#include "engine/text/marian_decoding.h"
#include "engine/text/multilingual_tokenizer.h"
#include "engine/text/sentencepiece_model.h"
#include "engine/text/split_text.h"
#include "engine/text/vocabulary.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

struct MarianParts {
  std::unique_ptr<SentencePieceModel> source;
  std::unique_ptr<SentencePieceModel> target;  // null: same as source
  Vocabulary source_vocabulary;
  Vocabulary target_vocabulary;
  bool separate_vocabularies = false;
  AddedTokens added_tokens;  // all are special
  int32_t unk_id = 0;
  int32_t eos_id = 0;
  int64_t model_max_length = 0;
  bool has_codes = false;  // ">>de<<" at the start of a text is one token
  const char* behind_special = " ";
  const char* kind = "SentencePiece (Marian)";
};

class MarianTokenizer : public Tokenizer {
 public:
  explicit MarianTokenizer(MarianParts parts) : parts_(std::move(parts)) {
    vocab_size_ = std::max(parts_.source_vocabulary.size(), parts_.target_vocabulary.size());
    for (const AddedToken& token : parts_.added_tokens.tokens()) {
      vocab_size_ = std::max(vocab_size_, token.id + 1);
    }
    // transformers decodes with the source model if both sides share one vocabulary.
    const SentencePieceModel& model =
        parts_.separate_vocabularies ? *parts_.target : *parts_.source;
    decoder_ = MakeMarianDecoder(model, parts_.added_tokens, parts_.behind_special);
  }

  absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                            const EncodeTextOptions& options) const override {
    BEAMLINE_RETURN_IF_ERROR(CheckText(text));
    SplitText split(text);
    parts_.added_tokens.ExtractFromOriginal(&split);
    BEAMLINE_RETURN_IF_ERROR(split.work().status());
    std::vector<Token> tokens;
    for (const Piece& piece : split.pieces()) {
      if (piece.finished()) {
        tokens.push_back({piece.token_id, piece.begin, piece.end, /*special=*/true});
      } else {
        BEAMLINE_RETURN_IF_ERROR(
            EncodeSegment(split.PieceText(piece), piece.begin, options.as_target, &tokens));
      }
    }
    Truncate(options, options.add_special_tokens ? num_template_tokens() : 0, &tokens);
    if (options.add_special_tokens) AddTemplate({}, {&parts_.eos_id, 1}, text.size(), &tokens);
    return tokens;
  }

  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                     bool skip_special_tokens) const override {
    BEAMLINE_RETURN_IF_ERROR(CheckIds(ids, vocab_size_));
    std::string text;
    DecodeChain chain(decoder_);
    for (const int32_t id : ids) {
      if (!skip_special_tokens || !IsSpecial(id)) chain.Push(DecodedToken(id), &text);
    }
    chain.Finish(&text);
    return text;
  }

  std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip_special_tokens) const override {
    return std::make_unique<Detokenizer>(this, skip_special_tokens);
  }

  int32_t vocab_size() const override { return vocab_size_; }
  int32_t source_vocab_size() const override {
    return std::max(parts_.source_vocabulary.size(), parts_.eos_id + 1);
  }
  std::optional<int32_t> target_vocab_size() const override {
    if (!parts_.separate_vocabularies) return std::nullopt;
    return parts_.target_vocabulary.size();
  }

  std::string TokenText(int32_t id) const override { return Text(parts_.source_vocabulary, id); }

  std::optional<int32_t> TokenId(std::string_view token_text) const override {
    if (const AddedToken* token = parts_.added_tokens.Find(token_text)) return token->id;
    return parts_.source_vocabulary.Find(token_text);
  }
  bool IsSpecial(int32_t id) const override { return parts_.added_tokens.Find(id) != nullptr; }
  int32_t num_template_tokens() const override { return 1; }
  int64_t model_max_length() const override { return parts_.model_max_length; }
  std::string Kind() const override { return parts_.kind; }

 private:
  class Detokenizer : public IncrementalDetokenizer {
   public:
    Detokenizer(const MarianTokenizer* tokenizer, bool skip_special_tokens)
        : tokenizer_(tokenizer),
          chain_(tokenizer->decoder_),
          skip_special_tokens_(skip_special_tokens) {}

    std::string Append(int32_t id) override {
      std::string text;
      if (!skip_special_tokens_ || !tokenizer_->IsSpecial(id)) {
        chain_.Push(tokenizer_->DecodedToken(id), &text);
      }
      return text;
    }
    std::string Finish() override {
      std::string text;
      chain_.Finish(&text);
      return text;
    }
    std::unique_ptr<IncrementalDetokenizer> Clone() const override {
      return std::make_unique<Detokenizer>(*this);
    }

   private:
    const MarianTokenizer* tokenizer_;
    DecodeChain chain_;
    bool skip_special_tokens_;
  };

  std::string Text(const Vocabulary& vocabulary, int32_t id) const {
    if (const AddedToken* token = parts_.added_tokens.Find(id)) return token->content;
    return id >= 0 && id < vocabulary.size() ? vocabulary.Token(id) : std::string();
  }
  std::string DecodedToken(int32_t id) const { return Text(parts_.target_vocabulary, id); }

  // Encodes the text between special tokens.
  absl::Status EncodeSegment(std::string_view text, int32_t begin, bool as_target,
                             std::vector<Token>* tokens) const {
    const SentencePieceModel& model =
        as_target && parts_.target != nullptr ? *parts_.target : *parts_.source;
    const Vocabulary& vocabulary = as_target ? parts_.target_vocabulary : parts_.source_vocabulary;
    const auto id_of = [&](std::string_view piece) {
      return vocabulary.Find(piece).value_or(parts_.unk_id);
    };
    const auto add = [&](std::string_view piece, int32_t piece_begin, int32_t piece_end) {
      const int32_t id = id_of(piece);
      tokens->push_back({id, piece_begin, piece_end, IsSpecial(id)});
    };
    if (parts_.has_codes && text.starts_with(">>")) {
      const size_t close = text.find("<<");
      if (close != std::string_view::npos) {
        const auto length = static_cast<int32_t>(close) + 2;
        add(text.substr(0, close + 2), begin, begin + length);
        text.remove_prefix(close + 2);
        begin += length;
      }
    }
    BEAMLINE_ASSIGN_OR_RETURN(const std::vector<SentencePiece> pieces, model.Encode(text));
    for (const SentencePiece& piece : pieces) {
      add(piece.text, begin + piece.begin, begin + piece.end);
    }
    return absl::OkStatus();
  }

  MarianParts parts_;
  DecodeChain decoder_;  // in its initial state
  int32_t vocab_size_ = 0;
};

absl::StatusOr<Vocabulary> LoadVocabulary(const CheckpointPath& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJson(path, kMaxTokenizerFileBytes));
  return Vocabulary::FromJson(JsonNode(json, path.string()));
}

// The special tokens. As in transformers, those missing in the vocabulary get ids after it.
std::vector<AddedToken> SpecialTokens(const TokenizerConfig& config, const Vocabulary& vocabulary) {
  std::vector<std::string> contents = {config.Role("eos_token", "</s>"),
                                       config.Role("unk_token", "<unk>"),
                                       config.Role("pad_token", "<pad>")};
  for (const AddedToken& token : config.special_tokens) contents.push_back(token.content);
  std::vector<AddedToken> tokens = config.added_tokens;
  absl::flat_hash_set<std::string> known;
  for (const AddedToken& token : tokens) known.insert(token.content);
  int32_t next_id = vocabulary.num_tokens();
  for (const std::string& content : contents) {
    if (content.empty() || !known.insert(content).second) continue;
    AddedToken token;
    token.content = content;
    const std::optional<int32_t> id = vocabulary.Find(content);
    token.id = id.has_value() ? *id : next_id++;
    tokens.push_back(std::move(token));
  }
  for (AddedToken& token : tokens) {
    token.special = true;
    token.normalized = false;
  }
  return tokens;
}

// Reads the settings of tokenizer_config.json that both families share.
absl::Status FinishParts(const std::string& vocab_path, const TokenizerConfig& config,
                         std::vector<AddedToken> tokens, MarianParts& parts) {
  const JsonNode root(config.json, config.place);
  if (root.Has("sp_model_kwargs") && !config.json["sp_model_kwargs"].empty()) {
    return root.Error(fmt::format("\"sp_model_kwargs\" is {}; no arguments are supported",
                                  config.json["sp_model_kwargs"].dump()));
  }
  const std::string eos = config.Role("eos_token", "</s>");
  if (eos.empty()) {
    return JsonNode(config.json, config.PlaceOf("eos_token"))
        .Error("\"eos_token\" is \"\"; a text must end with a token");
  }
  const std::string unk = config.Role("unk_token", "<unk>");
  const std::optional<int32_t> unk_id = parts.source_vocabulary.Find(unk);
  if (!unk_id.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the unknown token \"{}\" is missing", vocab_path, unk));
  }
  parts.unk_id = *unk_id;
  auto added_tokens = AddedTokens::Make(std::move(tokens), /*normalizer=*/nullptr);
  if (!added_tokens.ok()) return WithPlace(config.place, added_tokens.status());
  parts.added_tokens = *std::move(added_tokens);
  parts.eos_id = parts.added_tokens.Find(eos)->id;
  parts.model_max_length = config.model_max_length;
  return absl::OkStatus();
}

// Adds a special token that the vocabulary has but no file lists.
void AddSpecial(const std::string& content, const Vocabulary& vocabulary,
                std::vector<AddedToken>& tokens) {
  const std::optional<int32_t> id = vocabulary.Find(content);
  if (!id.has_value()) return;
  if (std::ranges::find(tokens, content, &AddedToken::content) != tokens.end()) return;
  AddedToken& token = tokens.emplace_back();
  token.content = content;
  token.id = *id;
  token.special = true;
  token.normalized = false;
}

// The language codes that transformers' class appends to the vocabulary, in this order.
constexpr std::string_view kM2M100Codes =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha "
    "he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my "
    "ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz "
    "vi wo xh yi yo zh zu";
constexpr std::string_view kWmt21Codes = "en ha is ja cs ru zh de";

// The special tokens, including the language codes with the ids that the class assigns.
absl::StatusOr<std::vector<AddedToken>> TokensWithCodes(const TokenizerConfig& config,
                                                        const Vocabulary& vocabulary) {
  const JsonNode root(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const std::string codes, root.StringOr("language_codes", "m2m100"));
  if (codes != "m2m100" && codes != "wmt21") {
    return root.Error(
        fmt::format("\"language_codes\" is \"{}\"; accepted: \"m2m100\", \"wmt21\"", codes));
  }
  std::vector<AddedToken> tokens = SpecialTokens(config, vocabulary);
  AddSpecial(config.Role("bos_token", "<s>"), vocabulary, tokens);
  int32_t id = vocabulary.num_tokens();
  std::string_view rest = codes == "m2m100" ? kM2M100Codes : kWmt21Codes;
  while (!rest.empty()) {
    const std::string_view code = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(code.size() + 1, rest.size()));
    const std::string content = fmt::format("__{}__", code);
    auto token = std::ranges::find(tokens, content, &AddedToken::content);
    if (token == tokens.end()) {
      token = tokens.insert(tokens.end(), AddedToken());
      token->content = content;
      token->special = true;
      token->normalized = false;
    }
    token->id = id++;
  }
  // Any other token would get the id of a code.
  for (const AddedToken& token : tokens) {
    if (token.id < vocabulary.num_tokens() || IsLanguageCode(kM2M100Tokenizer, token.content)) {
      continue;
    }
    return root.Error(fmt::format("the token \"{}\" is not in the vocabulary", token.content));
  }
  return tokens;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadMarianTokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config) {
  MarianParts parts;
  parts.has_codes = true;
  const CheckpointPath vocab_path = folder / "vocab.json";
  BEAMLINE_ASSIGN_OR_RETURN(parts.source, SentencePieceModel::Load(folder / "source.spm"));
  BEAMLINE_ASSIGN_OR_RETURN(parts.target, SentencePieceModel::Load(folder / "target.spm"));
  BEAMLINE_ASSIGN_OR_RETURN(parts.source_vocabulary, LoadVocabulary(vocab_path));
  const JsonNode root(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(parts.separate_vocabularies, root.BoolOr("separate_vocabs", false));
  BEAMLINE_ASSIGN_OR_RETURN(
      parts.target_vocabulary,
      LoadVocabulary(parts.separate_vocabularies ? folder / "target_vocab.json" : vocab_path));

  BEAMLINE_RETURN_IF_ERROR(FinishParts(vocab_path.string(), config,
                                       SpecialTokens(config, parts.source_vocabulary), parts));
  return std::make_unique<MarianTokenizer>(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadM2M100Tokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config) {
  MarianParts parts;
  parts.behind_special = "";
  parts.kind = "SentencePiece (M2M100)";
  const CheckpointPath vocab_path = folder / "vocab.json";
  BEAMLINE_ASSIGN_OR_RETURN(parts.source,
                            SentencePieceModel::Load(folder / "sentencepiece.bpe.model",
                                                     /*may_merge=*/true));
  BEAMLINE_ASSIGN_OR_RETURN(parts.source_vocabulary, LoadVocabulary(vocab_path));
  BEAMLINE_ASSIGN_OR_RETURN(parts.target_vocabulary, LoadVocabulary(vocab_path));
  BEAMLINE_ASSIGN_OR_RETURN(std::vector<AddedToken> tokens,
                            TokensWithCodes(config, parts.source_vocabulary));
  BEAMLINE_RETURN_IF_ERROR(FinishParts(vocab_path.string(), config, std::move(tokens), parts));
  return std::make_unique<MarianTokenizer>(std::move(parts));
}

}  // namespace beamline::text
