#include "engine/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/unicode.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

bool EndsWithWordChar(std::string_view text) {
  if (text.empty()) return false;
  size_t begin;
  return IsWordChar(ReadCharBefore(text, text.size(), &begin));
}

bool StartsWithWordChar(std::string_view text) {
  if (text.empty()) return false;
  size_t position = 0;
  return IsWordChar(ReadChar(text, &position));
}

size_t SkipSpaceBackward(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    size_t begin;
    if (!IsWhitespace(ReadCharBefore(text, end, &begin))) break;
    end = begin;
  }
  return end;
}

size_t SkipSpaceForward(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t next = begin;
    if (!IsWhitespace(ReadChar(text, &next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const JsonNode& list,
                                                        const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, list.Element(i));
    AddedToken token;
    BEAMLINE_ASSIGN_OR_RETURN(const int64_t id, node.Int("id", 0, kMaxTokens - 1));
    token.id = static_cast<int32_t>(id);
    BEAMLINE_ASSIGN_OR_RETURN(token.content, node.String("content"));
    BEAMLINE_ASSIGN_OR_RETURN(token.single_word, node.BoolOr("single_word", false));
    BEAMLINE_ASSIGN_OR_RETURN(token.lstrip, node.BoolOr("lstrip", false));
    BEAMLINE_ASSIGN_OR_RETURN(token.rstrip, node.BoolOr("rstrip", false));
    BEAMLINE_ASSIGN_OR_RETURN(token.special, node.BoolOr("special", false));
    BEAMLINE_ASSIGN_OR_RETURN(token.normalized, node.BoolOr("normalized", !token.special));
    const auto known = vocabulary.Find(token.content);
    if (known.has_value() && *known != token.id) {
      return node.Error(fmt::format("\"{}\" has the id {}, in the model's vocabulary {}",
                                    token.content, token.id, *known));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

absl::StatusOr<AddedTokens> AddedTokens::Make(std::vector<AddedToken> tokens,
                                              const Normalizer* normalizer) {
  AddedTokens made;
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const auto [place, is_new] = made.by_content_.emplace(token.content, made.tokens_.size());
    if (is_new) {
      made.tokens_.push_back(std::move(token));
    } else {
      made.tokens_[place->second] = std::move(token);
    }
  }
  // Special tokens first: of two with the same normalized text, the first one is found.
  std::stable_sort(made.tokens_.begin(), made.tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.special > b.special; });
  std::vector<std::pair<std::string, int32_t>> original, normalized;
  size_t num_bytes = 0;
  for (const AddedToken& token : made.tokens_) num_bytes += token.content.size();
  TextWork work(num_bytes);  // for all tokens together
  for (size_t i = 0; i < made.tokens_.size(); ++i) {
    AddedToken& token = made.tokens_[i];
    token.decoded = token.content;
    made.by_id_[token.id] = i;
    made.by_content_[token.content] = i;
    if (!token.normalized) {
      original.emplace_back(token.content, static_cast<int32_t>(i));
      continue;
    }
    AlignedText text;
    text.Assign(token.content, 0);
    text.set_work(&work);
    if (normalizer != nullptr) {
      const absl::Status made_text = normalizer->Normalize(&text);
      if (!work.status().ok()) {
        return absl::Status(work.status().code(),
                            fmt::format("added_tokens: {}", std::string(work.status().message())));
      }
      BEAMLINE_RETURN_IF_ERROR(made_text);
    }
    if (text.has_outgrown()) {
      return absl::InvalidArgumentError(
          fmt::format("added_tokens: the normalizer makes more than {} bytes of \"{}\"",
                      MaxRewrittenBytes(token.content.size()), token.content));
    }
    token.decoded = text.text();
    if (token.decoded.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("added_tokens: \"{}\" is empty once it is normalized", token.content));
    }
    normalized.emplace_back(text.text(), static_cast<int32_t>(i));
  }
  // Decoding without special tokens looks up the decoded text among the tokens' contents.
  for (AddedToken& token : made.tokens_) {
    const AddedToken* written = made.Find(token.decoded);
    token.skipped = written != nullptr && written->special;
  }
  BEAMLINE_RETURN_IF_ERROR(made.original_.Build(original));
  BEAMLINE_RETURN_IF_ERROR(made.normalized_.Build(normalized));
  return made;
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::Find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

absl::Status AddedTokens::Matcher::Build(
    const std::vector<std::pair<std::string, int32_t>>& patterns) {
  absl::flat_hash_map<std::string, int32_t> first;
  for (const auto& [text, index] : patterns) {
    if (!text.empty()) first.emplace(text, index);
  }
  std::vector<std::pair<std::string_view, int32_t>> entries(first.begin(), first.end());
  for (const auto& [text, index] : entries) starts_token_[static_cast<uint8_t>(text[0])] = true;
  empty_ = entries.empty();
  BEAMLINE_ASSIGN_OR_RETURN(trie_, ByteTrie::Build(entries));
  return absl::OkStatus();
}

void AddedTokens::Matcher::Extract(const std::vector<AddedToken>& tokens, SplitText* text) const {
  if (empty_) return;
  text->CutPieces([&](const Piece& piece, std::vector<Piece>* out) {
    CutPiece(tokens, text->PieceText(piece), piece, text->work(), out);
  });
}

void AddedTokens::Matcher::CutPiece(const std::vector<AddedToken>& tokens, std::string_view text,
                                    const Piece& piece, TextWork& work,
                                    std::vector<Piece>* out) const {
  const auto emit = [&](size_t begin, size_t end, int32_t id) {
    if (begin == end) return;
    out->push_back(
        {piece.begin + static_cast<int32_t>(begin), piece.begin + static_cast<int32_t>(end), id});
  };
  size_t covered = 0;
  for (size_t position = 0; position < text.size();) {
    size_t length = 0;
    int32_t index = 0;
    if (starts_token_[static_cast<uint8_t>(text[position])]) {
      const auto keep = [&](size_t found_length, int32_t found) {
        length = found_length;
        index = found;
      };
      if (!work.Spend(trie_.ForEachPrefix(text.substr(position), keep))) return;
    }
    if (length == 0) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens[static_cast<size_t>(index)];
    size_t begin = position, end = position + length;
    position = end;
    if (token.single_word &&
        (EndsWithWordChar(text.substr(0, begin)) || StartsWithWordChar(text.substr(end)))) {
      continue;
    }
    // The text from here to `covered` is white space that the previous token took.
    if (token.lstrip) {
      begin = covered > begin ? covered : SkipSpaceBackward(text, begin, covered);
    }
    if (token.rstrip) end = SkipSpaceForward(text, std::max(end, covered));
    if (begin >= end) continue;
    emit(covered, std::max(begin, covered), Piece::kNoToken);
    emit(begin, end, token.id);
    covered = end;
  }
  emit(covered, text.size(), Piece::kNoToken);
}

}  // namespace beamline::text
