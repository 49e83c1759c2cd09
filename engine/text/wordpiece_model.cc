#include "engine/text/wordpiece_model.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/word_cache.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

// Tokens by their bytes, without the continuation prefix.
struct PieceTable {
  TokenMap ids;
  size_t longest = 0;  // bytes

  void Add(std::string_view text, int32_t id) {
    ids.emplace(text, id);
    longest = std::max(longest, text.size());
  }
};

class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceConfig config, int32_t unk_id)
      : vocabulary_(std::move(vocabulary)),
        max_chars_(config.max_input_chars_per_word),
        unk_id_(unk_id),
        cache_owner_(WordCache::NewOwner()) {
    for (const auto& [token, id] : vocabulary_.ids()) {
      initial_.Add(token, id);
      if (token.starts_with(config.continuing_subword_prefix)) {
        continuing_.Add(token.substr(config.continuing_subword_prefix.size()), id);
      }
    }
  }

  absl::Status Tokenize(std::string_view word, TextWork&,
                        std::vector<WordToken>* tokens) const override {
    WordCache& cache = WordCache::OfThread();
    if (cache.Find(cache_owner_, word, tokens)) return absl::OkStatus();
    const size_t first = tokens->size();
    if (TooLong(word) || !CutLongestFirst(word, tokens)) {
      tokens->resize(first);
      tokens->push_back({unk_id_, 0, static_cast<int32_t>(word.size())});
    }
    cache.Store(cache_owner_, word, tokens->data() + first, tokens->size() - first);
    return absl::OkStatus();
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view Name() const override { return "WordPiece"; }

 private:
  bool TooLong(std::string_view word) const {
    if (static_cast<int64_t>(word.size()) <= max_chars_) return false;
    return std::count_if(word.begin(), word.end(), [](char c) { return !IsContinuationByte(c); }) >
           max_chars_;
  }

  // Repeatedly takes the longest token that fits; false if none fits.
  bool CutLongestFirst(std::string_view word, std::vector<WordToken>* tokens) const {
    for (size_t begin = 0; begin < word.size();) {
      const PieceTable& table = begin == 0 ? initial_ : continuing_;
      size_t end = std::min(word.size(), begin + table.longest);
      auto found = table.ids.end();
      for (; end > begin; --end) {
        if (end < word.size() && IsContinuationByte(word[end])) continue;
        found = table.ids.find(word.substr(begin, end - begin));
        if (found != table.ids.end()) break;
      }
      if (end == begin) return false;
      tokens->push_back({found->second, static_cast<int32_t>(begin), static_cast<int32_t>(end)});
      begin = end;
    }
    return true;
  }

  Vocabulary vocabulary_;
  PieceTable initial_;
  PieceTable continuing_;
  int64_t max_chars_;
  int32_t unk_id_;
  uint64_t cache_owner_;
};

class WordLevelModel : public TokenModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token)
      : vocabulary_(std::move(vocabulary)), unk_id_(vocabulary_.Find(unk_token)) {}

  absl::Status Tokenize(std::string_view word, TextWork&,
                        std::vector<WordToken>* tokens) const override {
    std::optional<int32_t> id = vocabulary_.Find(word);
    if (!id.has_value()) id = unk_id_;
    if (!id.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is not in the vocabulary, which has no unknown token", word));
    }
    tokens->push_back({*id, 0, static_cast<int32_t>(word.size())});
    return absl::OkStatus();
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view Name() const override { return "WordLevel"; }

 private:
  Vocabulary vocabulary_;
  std::optional<int32_t> unk_id_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TokenModel>> MakeWordPiece(Vocabulary vocabulary,
                                                          WordPieceConfig config) {
  const std::optional<int32_t> unk_id = vocabulary.Find(config.unk_token);
  if (!unk_id.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("unk_token \"{}\" is not in the vocabulary", config.unk_token));
  }
  return std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(config), *unk_id);
}

absl::StatusOr<std::unique_ptr<TokenModel>> WordPieceFromJson(const JsonNode& node) {
  WordPieceConfig config;
  BEAMLINE_ASSIGN_OR_RETURN(config.unk_token, node.StringOr("unk_token", config.unk_token));
  BEAMLINE_ASSIGN_OR_RETURN(
      config.continuing_subword_prefix,
      node.StringOr("continuing_subword_prefix", config.continuing_subword_prefix));
  BEAMLINE_ASSIGN_OR_RETURN(
      config.max_input_chars_per_word,
      node.IntOr("max_input_chars_per_word", config.max_input_chars_per_word, 1, 100000));
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode vocab, node.Object("vocab"));
  BEAMLINE_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(vocab));
  auto model = MakeWordPiece(std::move(vocabulary), std::move(config));
  if (!model.ok()) return node.Error(std::string(model.status().message()));
  return model;
}

absl::StatusOr<std::unique_ptr<TokenModel>> WordLevelFromJson(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(std::string unk_token, node.StringOr("unk_token", ""));
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode vocab, node.Object("vocab"));
  BEAMLINE_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(vocab));
  return std::make_unique<WordLevelModel>(std::move(vocabulary), std::move(unk_token));
}

}  // namespace beamline::text
