#include "engine/text/marian_decoding.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/text/decoders.h"
#include "engine/text/literal_replacer.h"

namespace beamline::text {
namespace {

// SentencePieceProcessor::Decode for a stream of pieces.
class PieceStage : public DecodeStage {
 public:
  PieceStage(const SentencePieceModel* model, const AddedTokens* special_tokens,
             std::string_view behind_special)
      : model_(model), special_tokens_(special_tokens), behind_special_(behind_special) {}

  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      Push(std::string_view(in.text).substr(begin, end - begin), &out->text);
      begin = end;
    }
    if (!at_end) return;
    EndSegment(&out->text);
    out->EndToken();
  }
  std::unique_ptr<DecodeStage> Clone() const override {
    return std::make_unique<PieceStage>(*this);
  }

 private:
  void Push(std::string_view token, std::string* out) {
    if (special_tokens_->Find(token) != nullptr) {
      EndSegment(out);
      *out += token;
      *out += behind_special_;
      return;
    }
    const SentencePieceModel::PieceKind kind = model_->KindOf(token);
    const size_t size_before = out->size();
    if (kind == SentencePieceModel::PieceKind::kByte) {
      pending_bytes_ += ByteOf(token);
      DrainBytes(/*at_end=*/false, out);
    } else {
      DrainBytes(/*at_end=*/true, out);
      if (out->size() > size_before) segment_empty_ = false;
      if (space_seen_ || !segment_empty_) at_start_ = false;
      AppendPiece(token, kind, out);
    }
    if (out->size() > size_before) segment_empty_ = false;
  }

  void AppendPiece(std::string_view piece, SentencePieceModel::PieceKind kind, std::string* out) {
    space_seen_ = false;
    if (kind == SentencePieceModel::PieceKind::kControl) return;
    if (kind == SentencePieceModel::PieceKind::kUnknown) {
      *out += model_->IsUnknownPiece(piece) ? model_->unknown_surface() : std::string(piece);
      return;
    }
    if (at_start_ && model_->drops_first_space() && piece.starts_with(kSpaceMark)) {
      piece.remove_prefix(kSpaceMark.size());
      space_seen_ = !model_->drops_all_leading_spaces();
    }
    *out += piece;  // later stages replace the marks inside
  }

  // "<0xE2>"
  static char ByteOf(std::string_view piece) {
    return static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16));
  }

  // Every invalid byte becomes one U+FFFD, even if several belong together.
  void DrainBytes(bool at_end, std::string* out) {
    size_t position = 0;
    while (position < pending_bytes_.size()) {
      const std::string_view rest = std::string_view(pending_bytes_).substr(position);
      const Utf8Scan scan = ScanUtf8(rest);
      if (scan.kind == Utf8Scan::kIncomplete && !at_end) break;
      if (scan.kind == Utf8Scan::kValid) {
        *out += rest.substr(0, scan.length);
        position += scan.length;
      } else {
        *out += kReplacementCharacter;
        ++position;
      }
    }
    pending_bytes_.erase(0, position);
  }

  void EndSegment(std::string* out) {
    DrainBytes(/*at_end=*/true, out);
    segment_empty_ = true;
    at_start_ = true;
    space_seen_ = false;
  }

  const SentencePieceModel* model_;
  const AddedTokens* special_tokens_;
  std::string behind_special_;
  std::string pending_bytes_;
  bool segment_empty_ = true;  // no text since the last special token
  bool at_start_ = true;       // a space before the next piece is dropped
  bool space_seen_ = false;    // the previous piece was such a space
};

}  // namespace

DecodeChain MakeMarianDecoder(const SentencePieceModel& model, const AddedTokens& special_tokens,
                              std::string_view behind_special) {
  DecodeChain chain;
  chain.Add(std::make_unique<PieceStage>(&model, &special_tokens, behind_special));
  std::vector<LiteralReplacer> replacers;
  replacers.emplace_back(std::string(kSpaceMark), " ");
  chain.Add(std::make_unique<ReplaceAllStage>(std::move(replacers)));
  chain.Add(MakeStripWhitespaceStage());
  return chain;
}

}  // namespace beamline::text
