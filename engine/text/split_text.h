// The text of one request in the tokenizer's pipeline: split into pieces and aligned with the
// original.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/aligned_text.h"

namespace beamline::text {

// A byte range of SplitText::text(). A piece with a token id is an added token and is finished.
struct Piece {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t token_id = kNoToken;

  static constexpr int32_t kNoToken = -1;
  bool finished() const { return token_id != kNoToken; }
};

class SplitText {
 public:
  // REQUIRES: original is valid UTF-8, shorter than 2 GiB, and outlives this object.
  explicit SplitText(std::string_view original) : original_(original), work_(original.size()) {
    scratch_.set_work(&work_);
    if (!original.empty()) pieces_.push_back({0, static_cast<int32_t>(original.size())});
  }

  SplitText(const SplitText&) = delete;  // scratch_ points to work_
  SplitText& operator=(const SplitText&) = delete;

  // The work spent on the text. Once it is exhausted, the result for the text is meaningless.
  TextWork& work() { return work_; }

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string_view text() const { return rewritten_ ? std::string_view(text_) : original_; }
  std::string_view PieceText(const Piece& piece) const {
    return text().substr(piece.begin, piece.end - piece.begin);
  }

  // Origin of the bytes [begin, end) of text(). REQUIRES: begin < end.
  ByteRange Source(int32_t begin, int32_t end) const {
    if (!rewritten_) return WholeCharacters(original_, begin, end);
    return {sources_[begin].begin, sources_[end - 1].end};
  }

  // Splits each unfinished piece into the pieces that cut(piece, *out) appends.
  template <typename Cut>
  void CutPieces(Cut cut) {
    if (!work_.Spend(text().size() + pieces_.size())) return;
    std::vector<Piece> cut_pieces;
    cut_pieces.reserve(pieces_.size() + text().size() / 4);
    for (const Piece& piece : pieces_) {
      if (piece.finished()) {
        cut_pieces.push_back(piece);
      } else {
        cut(piece, &cut_pieces);
      }
    }
    pieces_ = std::move(cut_pieces);
  }

  // Whether rewriting exceeded MaxRewrittenBytes; the text is then truncated.
  bool has_outgrown() const { return has_outgrown_; }

  // Rewrites the text of each unfinished piece: rewrite(AlignedText*). Pieces that become empty are
  // removed.
  template <typename RewritePiece>
  void RewritePieces(RewritePiece rewrite) {
    if (!work_.Spend(TextWork::kUnitsPerRewrittenByte * (text().size() + pieces_.size()))) return;
    std::string new_text;
    std::vector<ByteRange> new_sources;
    new_text.reserve(text().size() + 16);
    new_sources.reserve(text().size() + 16);
    AlignedWriter writer(&new_text, &new_sources, MaxRewrittenBytes(original_.size()));
    std::vector<Piece> new_pieces;
    new_pieces.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      if (rewritten_) {
        scratch_.Assign(PieceText(piece), sources_.data() + piece.begin);
      } else {
        scratch_.Assign(PieceText(piece), piece.begin);
      }
      if (!piece.finished()) rewrite(&scratch_);
      if (!work_.status().ok()) break;
      has_outgrown_ = has_outgrown_ || scratch_.has_outgrown() || writer.full();
      if (has_outgrown_) break;
      if (scratch_.text().empty()) continue;
      const auto begin = static_cast<int32_t>(new_text.size());
      scratch_.CopyTo(0, scratch_.text().size(), &writer);
      new_pieces.push_back({begin, static_cast<int32_t>(new_text.size()), piece.token_id});
    }
    has_outgrown_ = has_outgrown_ || writer.full();
    text_ = std::move(new_text);
    sources_ = std::move(new_sources);
    pieces_ = std::move(new_pieces);
    rewritten_ = true;
  }

 private:
  std::string_view original_;
  TextWork work_;
  bool rewritten_ = false;
  bool has_outgrown_ = false;
  std::string text_;
  std::vector<ByteRange> sources_;  // one for each byte of text_
  std::vector<Piece> pieces_;
  AlignedText scratch_;
};

}  // namespace beamline::text
