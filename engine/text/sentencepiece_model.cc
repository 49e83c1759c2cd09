#include "engine/text/sentencepiece_model.h"

#include <algorithm>
#include <cfloat>
#include <queue>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/text/error_line.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using PieceType = SentencePieceFile::PieceType;

// An unknown character scores this much less than the worst piece.
constexpr float kUnkPenalty = 10.0f;
// TextWork units per examined pair; there are at most three pairs per byte of text.
constexpr size_t kUnitsPerPair = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceModel>> SentencePieceModel::Load(
    const CheckpointPath& from, bool may_merge) {
  const std::string& path = from.string();
  std::unique_ptr<SentencePieceModel> model(new SentencePieceModel());
  BEAMLINE_ASSIGN_OR_RETURN(model->file_, ReadSentencePieceFile(from));
  // At each byte, the text is read as long as it matches the start of a piece.
  constexpr size_t kMostPieceBytes = 512;
  for (const SentencePieceFile::Piece& piece : model->file_.pieces) {
    if (piece.text.size() <= kMostPieceBytes) continue;
    return absl::InvalidArgumentError(fmt::format("{}: a piece of {} bytes; accepted: at most {}",
                                                  path, piece.text.size(), kMostPieceBytes));
  }
  const bool merges = model->file_.model_type == SentencePieceFile::ModelType::kBpe;
  if (model->file_.model_type != SentencePieceFile::ModelType::kUnigram && !(merges && may_merge)) {
    return absl::UnimplementedError(
        fmt::format("{}: SentencePiece model type {}; accepted: 1 (unigram){}", path,
                    static_cast<int>(model->file_.model_type), may_merge ? ", 2 (BPE)" : ""));
  }
  for (const SentencePieceFile::Piece& piece : model->file_.pieces) {
    if (!merges) break;
    if (piece.type != PieceType::kUserDefined && piece.type != PieceType::kUnused) continue;
    return absl::UnimplementedError(fmt::format(
        "{}: piece \"{}\" of type {}; a model of type 2 (BPE) has none of types 4 and 5 here", path,
        Shorten(piece.text), static_cast<int>(piece.type)));
  }
  BEAMLINE_RETURN_IF_ERROR(model->Index(path));
  return model;
}

absl::Status SentencePieceModel::Index(const std::string& path) {
  auto normalizer = SentencePieceNormalizer::Create(file_);
  if (!normalizer.ok()) return WithPlace(path, normalizer.status());
  normalizer_ = *std::move(normalizer);
  std::vector<std::string> texts;
  std::vector<std::pair<std::string_view, int32_t>> entries;
  float min_score = FLT_MAX;
  max_score_ = FLT_MIN;
  for (const SentencePieceFile::Piece& piece : file_.pieces) {
    const auto id = static_cast<int32_t>(texts.size());
    texts.push_back(piece.text);
    if (piece.type == PieceType::kUnknown) unknown_id_ = id;
    if (piece.type == PieceType::kNormal) {
      min_score = std::min(min_score, piece.score);
      max_score_ = std::max(max_score_, piece.score);
    }
    if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) {
      entries.emplace_back(piece.text, id);
    }
  }
  if (unknown_id_ < 0) {
    return absl::InvalidArgumentError(fmt::format("{}: no unknown piece", path));
  }
  unknown_score_ = min_score - kUnkPenalty;
  vocabulary_ = Vocabulary::FromList(std::move(texts));
  auto trie = ByteTrie::Build(entries);
  if (!trie.ok()) return WithPlace(path, trie.status());
  trie_ = *std::move(trie);
  return absl::OkStatus();
}

// User-defined pieces always win.
double SentencePieceModel::ScoreOf(int32_t id, size_t length) const {
  const SentencePieceFile::Piece& piece = file_.pieces[static_cast<size_t>(id)];
  if (piece.type != PieceType::kUserDefined) return piece.score;
  return static_cast<double>(static_cast<float>(length) * max_score_) - 0.1;
}

absl::StatusOr<std::vector<SentencePieceModel::Node>> SentencePieceModel::FindBestPath(
    std::string_view text, TextWork& work) const {
  std::vector<Node> nodes(text.size() + 1);
  for (size_t begin = 0; begin < text.size();) {
    const float score_here = nodes[begin].score;
    // As in the reference, sums are computed in double and stored as float, so that ties are the
    // same.
    const auto relax = [&](size_t length, double score, int32_t id) {
      Node& node = nodes[begin + length];
      if (const double total = score + score_here; node.begin < 0 || total > node.score) {
        node = {static_cast<float>(total), id, static_cast<int32_t>(begin)};
      }
    };
    const size_t char_length = std::min(CharLength(text[begin]), text.size() - begin);
    bool has_char = false;
    const size_t num_read = trie_.ForEachPrefix(text.substr(begin), [&](size_t length, int32_t id) {
      relax(length, ScoreOf(id, length), id);
      has_char |= length == char_length;
    });
    if (!work.Spend(num_read)) return work.status();
    if (!has_char) relax(char_length, unknown_score_, unknown_id_);
    begin += char_length;
  }
  std::vector<Node> path;
  for (auto end = static_cast<int32_t>(text.size()); end > 0; end = path.back().begin) {
    path.push_back(nodes[static_cast<size_t>(end)]);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

int32_t SentencePieceModel::NormalPiece(std::string_view text) const {
  const auto id = vocabulary_.Find(text);
  const bool is_normal =
      id.has_value() && file_.pieces[static_cast<size_t>(*id)].type == PieceType::kNormal;
  return is_normal ? *id : -1;
}

absl::StatusOr<std::vector<SentencePieceModel::Node>> SentencePieceModel::MergePairs(
    std::string_view text, TextWork& work) const {
  struct Symbol {
    int32_t begin = 0, size = 0;  // size 0: merged into the previous one
    int32_t previous = -1, next = -1;
  };
  struct Pair {
    float score;
    int32_t left, right, size;
    bool operator<(const Pair& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  std::vector<Symbol> symbols;
  for (size_t begin = 0; begin < text.size();) {
    const size_t length = std::min(CharLength(text[begin]), text.size() - begin);
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(length), index - 1,
                       begin + length < text.size() ? index + 1 : -1});
    begin += length;
  }
  std::priority_queue<Pair> pairs;
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& first = symbols[static_cast<size_t>(left)];
    const int32_t size = first.size + symbols[static_cast<size_t>(right)].size;
    const int32_t id = NormalPiece(text.substr(static_cast<size_t>(first.begin), size));
    if (id >= 0) pairs.push({file_.pieces[static_cast<size_t>(id)].score, left, right, size});
  };
  for (size_t i = 1; i < symbols.size(); ++i) {
    consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  }
  while (!pairs.empty()) {
    if (!work.Spend(kUnitsPerPair)) return work.status();
    const Pair best = pairs.top();
    pairs.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    left.size = best.size;
    right.size = 0;
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
  std::vector<Node> path;
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    const int32_t id = NormalPiece(text.substr(static_cast<size_t>(symbol.begin), symbol.size));
    path.push_back({0.0f, id < 0 ? unknown_id_ : id, symbol.begin});
  }
  return path;
}

absl::StatusOr<std::vector<SentencePiece>> SentencePieceModel::Encode(std::string_view text) const {
  TextWork work(text.size());
  BEAMLINE_ASSIGN_OR_RETURN(const SentencePieceNormalizer::Result normalized,
                            normalizer_.Normalize(text, work));
  const bool merges = file_.model_type == SentencePieceFile::ModelType::kBpe;
  BEAMLINE_ASSIGN_OR_RETURN(
      const std::vector<Node> path,
      merges ? MergePairs(normalized.text, work) : FindBestPath(normalized.text, work));
  std::vector<SentencePiece> pieces;
  pieces.reserve(path.size());
  bool after_unknown = false;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto begin = static_cast<size_t>(path[i].begin);
    const size_t end =
        i + 1 < path.size() ? static_cast<size_t>(path[i + 1].begin) : normalized.text.size();
    const std::string_view piece = std::string_view(normalized.text).substr(begin, end - begin);
    const bool unknown = path[i].id == unknown_id_;
    const int32_t origin_begin = normalized.origins[begin];
    const int32_t origin_end = normalized.origins[end];
    if (unknown && file_.byte_fallback) {
      AppendBytes(piece, origin_begin, origin_end, &pieces);
    } else if (unknown && after_unknown) {
      pieces.back().text += piece;
      pieces.back().end = origin_end;
    } else {
      pieces.push_back({std::string(piece), origin_begin, origin_end});
    }
    after_unknown = unknown;
  }
  return pieces;
}

// The last byte gets the range of the whole character.
void SentencePieceModel::AppendBytes(std::string_view text, int32_t begin, int32_t end,
                                     std::vector<SentencePiece>* pieces) const {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool last = i + 1 == text.size();
    pieces->push_back(
        {fmt::format("<0x{:02X}>", static_cast<uint8_t>(text[i])), begin, last ? end : begin});
  }
}

SentencePieceModel::PieceKind SentencePieceModel::KindOf(std::string_view piece) const {
  switch (file_.pieces[static_cast<size_t>(vocabulary_.Find(piece).value_or(unknown_id_))].type) {
    case PieceType::kUnknown:
      return PieceKind::kUnknown;
    case PieceType::kControl:
      return PieceKind::kControl;
    case PieceType::kByte:
      return PieceKind::kByte;
    default:
      return PieceKind::kNormal;
  }
}

bool SentencePieceModel::IsUnknownPiece(std::string_view piece) const {
  return vocabulary_.Find(piece) == unknown_id_;
}

}  // namespace beamline::text
