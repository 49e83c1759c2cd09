#include "engine/text/unigram_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/byte_trie.h"
#include "engine/text/text_work.h"
#include "engine/text/word_cache.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr int32_t kNone = -1;
// SentencePiece, unigram_model.cc: an unknown character scores this much less than the worst piece.
constexpr double kUnknownPenalty = 10.0;

// The value that serde_json reads from the shortest decimal form of `value`. It converts digits and
// power of ten separately, so it can be off by one unit in the last place. Ties between
// segmentations depend on that.
double AsSerdeReads(double value) {
  const std::string text = fmt::format("{}", value);
  uint64_t digits = 0;
  int exponent = 0;
  size_t at = text.starts_with('-') ? 1 : 0;
  bool fraction = false;
  for (; at < text.size() && text[at] != 'e'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(text[at] - '0');
    if (fraction) --exponent;
  }
  if (at < text.size()) exponent += std::atoi(text.c_str() + at + 1);
  while (digits != 0 && digits % 10 == 0) {
    digits /= 10;
    ++exponent;
  }
  const auto magnitude = static_cast<double>(digits);
  const double power = std::pow(10.0, std::abs(exponent));
  if (!std::isfinite(power) || digits == 0) return value;
  const double read = exponent < 0 ? magnitude / power : magnitude * power;
  return std::signbit(value) ? -read : read;
}

struct UnigramConfig {
  std::optional<int32_t> unk_id;
  bool byte_fallback = false;
};

class UnigramModel : public TokenModel {
 public:
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, ByteTrie trie,
               UnigramConfig config)
      : vocabulary_(std::move(vocabulary)),
        scores_(std::move(scores)),
        trie_(std::move(trie)),
        config_(config),
        cache_owner_(WordCache::NewOwner()) {
    const double worst = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end());
    unknown_score_ = worst - kUnknownPenalty;
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      byte_ids_[byte] = vocabulary_.Find(fmt::format("<0x{:02X}>", byte)).value_or(kNone);
    }
  }

  absl::Status Tokenize(std::string_view word, TextWork& work,
                        std::vector<WordToken>* tokens) const override {
    WordCache& cache = WordCache::OfThread();
    if (cache.Find(cache_owner_, word, tokens)) return absl::OkStatus();
    const size_t first = tokens->size();
    thread_local std::vector<WordToken> path;
    path.clear();
    BEAMLINE_RETURN_IF_ERROR(FindBestPath(word, work, &path));
    for (const WordToken& piece : path) BEAMLINE_RETURN_IF_ERROR(Append(word, piece, tokens));
    cache.Store(cache_owner_, word, tokens->data() + first, tokens->size() - first);
    return absl::OkStatus();
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool SpelledAsText(int32_t id) const override { return id == config_.unk_id; }
  std::string_view Name() const override { return "Unigram"; }

 private:
  // The best segmentation up to a byte position: its last piece and that piece's start.
  struct Node {
    double score = 0;
    int32_t id = kNone;
    int32_t begin = kNone;
  };

  // Viterbi over byte positions. Adjacent unknown characters become one piece.
  absl::Status FindBestPath(std::string_view word, TextWork& work,
                            std::vector<WordToken>* path) const {
    thread_local std::vector<Node> nodes;
    nodes.assign(word.size() + 1, Node{});
    for (size_t begin = 0; begin < word.size();) {
      const double score_here = nodes[begin].score;
      const size_t char_length = CharLength(word[begin]);
      bool has_char = false;
      const auto relax = [&](size_t length, double score, int32_t id) {
        Node& node = nodes[begin + length];
        if (node.begin == kNone || score_here + score > node.score) {
          node = {score_here + score, id, static_cast<int32_t>(begin)};
        }
      };
      const auto visit = [&](size_t length, int32_t id) {
        relax(length, scores_[static_cast<size_t>(id)], id);
        has_char |= length == char_length;
      };
      // Pieces may be long, and the whole word may match the start of one.
      if (!work.Spend(trie_.ForEachPrefix(word.substr(begin), visit))) return work.status();
      if (!has_char) {
        if (!config_.unk_id.has_value()) return NoUnknownToken(word.substr(begin, char_length));
        relax(char_length, unknown_score_, *config_.unk_id);
      }
      begin += char_length;
    }
    for (auto end = static_cast<int32_t>(word.size()); end > 0;) {
      const Node& node = nodes[static_cast<size_t>(end)];
      const bool unknown = config_.unk_id.has_value() && node.id == *config_.unk_id;
      if (unknown && !path->empty() && path->back().id == node.id) {
        path->back().begin = node.begin;
      } else {
        path->push_back({node.id, node.begin, end});
      }
      end = node.begin;
    }
    std::reverse(path->begin(), path->end());
    return absl::OkStatus();
  }

  absl::Status Append(std::string_view word, const WordToken& piece,
                      std::vector<WordToken>* tokens) const {
    if (!config_.unk_id.has_value() || piece.id != *config_.unk_id) {
      tokens->push_back(piece);
      return absl::OkStatus();
    }
    const std::string_view text = word.substr(piece.begin, piece.end - piece.begin);
    const auto id_of = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
    if (const auto id = vocabulary_.Find(text)) {
      tokens->push_back({*id, piece.begin, piece.end});
    } else if (config_.byte_fallback &&
               std::none_of(text.begin(), text.end(), [&](char c) { return id_of(c) == kNone; })) {
      for (const char c : text) tokens->push_back({id_of(c), piece.begin, piece.end});
    } else {
      tokens->push_back(piece);
    }
    return absl::OkStatus();
  }

  static absl::Status NoUnknownToken(std::string_view character) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not in the vocabulary, which has no unknown token", character));
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  ByteTrie trie_;
  UnigramConfig config_;
  double unknown_score_;
  std::array<int32_t, 256> byte_ids_;
  uint64_t cache_owner_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TokenModel>> UnigramFromJson(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode vocab, node.Array("vocab"));
  const auto size = static_cast<int64_t>(vocab.value().size());
  if (size > kMaxTokens) {
    return vocab.Error(fmt::format("{} tokens; at most {} are accepted", size, kMaxTokens));
  }
  UnigramConfig config;
  if (node.Has("unk_id")) {
    BEAMLINE_ASSIGN_OR_RETURN(const int64_t unk_id, node.Int("unk_id", 0, size - 1));
    config.unk_id = static_cast<int32_t>(unk_id);
  }
  BEAMLINE_ASSIGN_OR_RETURN(config.byte_fallback, node.BoolOr("byte_fallback", false));
  // Set for files whose scores transformers itself reads and passes on (translator_classes.cc).
  BEAMLINE_ASSIGN_OR_RETURN(const bool exact_scores, node.BoolOr("exact_scores", false));
  std::vector<std::string> tokens;
  std::vector<double> scores;
  for (const nlohmann::json& entry : vocab.value()) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return vocab.Error(
          fmt::format("entry {} is {}, expected [token, score]", tokens.size(), entry.dump()));
    }
    tokens.push_back(entry[0].get<std::string>());
    const auto score = entry[1].get<double>();
    scores.push_back(exact_scores ? score : AsSerdeReads(score));
  }
  Vocabulary vocabulary = Vocabulary::FromList(std::move(tokens));
  std::vector<std::pair<std::string_view, int32_t>> entries(vocabulary.ids().begin(),
                                                            vocabulary.ids().end());
  BEAMLINE_ASSIGN_OR_RETURN(ByteTrie trie, ByteTrie::Build(entries));
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), std::move(trie),
                                        config);
}

}  // namespace beamline::text
