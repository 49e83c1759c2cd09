#include "engine/text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

namespace beamline::text {

struct SentencePieceModel::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceModel::SentencePieceModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceModel::~SentencePieceModel() = default;

std::unique_ptr<SentencePieceModel> SentencePieceModel::Load(const std::string& path,
                                                             std::string* error) {
  auto impl = std::make_unique<Impl>();
  try {
    const sentencepiece::util::Status status = impl->processor.Load(path);
    if (!status.ok()) {
      *error = status.ToString();
      return nullptr;
    }
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
  std::unique_ptr<SentencePieceModel> model(new SentencePieceModel(std::move(impl)));
  model->ProbeLeadingSpaces();
  return model;
}

// The library does not show the settings, so a piece with a space in front is decoded.
void SentencePieceModel::ProbeLeadingSpaces() {
  for (int32_t id = 0; id < size(); ++id) {
    const std::string piece = IdToPiece(id);
    if (KindOf(piece) != PieceKind::kNormal || !piece.starts_with(kSpaceMark) ||
        piece.size() == kSpaceMark.size() || piece.find(kSpaceMark, 1) != std::string::npos) {
      continue;
    }
    drops_first_space_ = !Decode({piece}).starts_with(' ');
    const bool has_lone_space = KindOf(kSpaceMark) == PieceKind::kNormal;
    drops_all_leading_spaces_ =
        has_lone_space && !Decode({std::string(kSpaceMark), piece}).starts_with(' ');
    return;
  }
}

bool SentencePieceModel::Encode(std::string_view text, std::vector<SentencePiece>* pieces,
                                std::string* error) const {
  sentencepiece::ImmutableSentencePieceText encoded;
  const sentencepiece::util::Status status = impl_->processor.Encode(text, encoded.mutable_proto());
  if (!status.ok()) {
    *error = status.ToString();
    return false;
  }
  pieces->reserve(encoded.pieces_size());
  for (size_t i = 0; i < encoded.pieces_size(); ++i) {
    const auto piece = encoded.pieces(static_cast<int>(i));
    pieces->push_back(
        {piece.piece(), static_cast<int32_t>(piece.begin()), static_cast<int32_t>(piece.end())});
  }
  return true;
}

std::string SentencePieceModel::Decode(const std::vector<std::string>& pieces) const {
  return impl_->processor.DecodePieces(pieces);
}

int32_t SentencePieceModel::size() const { return impl_->processor.GetPieceSize(); }

std::string SentencePieceModel::IdToPiece(int32_t id) const {
  return impl_->processor.IdToPiece(id);
}

SentencePieceModel::PieceKind SentencePieceModel::KindOf(std::string_view piece) const {
  const int id = impl_->processor.PieceToId(piece);
  if (impl_->processor.IsUnknown(id)) return PieceKind::kUnknown;
  if (impl_->processor.IsControl(id)) return PieceKind::kControl;
  return impl_->processor.IsByte(id) ? PieceKind::kByte : PieceKind::kNormal;
}

bool SentencePieceModel::IsUnknownPiece(std::string_view piece) const {
  const int id = impl_->processor.PieceToId(piece);
  return impl_->processor.IsUnknown(id) && impl_->processor.IdToPiece(id) == piece;
}

}  // namespace beamline::text
