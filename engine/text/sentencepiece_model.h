// A SentencePiece model file. Its library declares an absl::string_view of its own, so this header
// and its source keep Abseil out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace beamline::text {

struct SentencePiece {
  std::string text;
  int32_t begin = 0;  // bytes of the encoded text
  int32_t end = 0;
};

// Immutable, thread safe.
class SentencePieceModel {
 public:
  enum class PieceKind : uint8_t { kNormal, kUnknown, kControl, kByte };

  // Null with the fault in *error when the file is no SentencePiece model.
  static std::unique_ptr<SentencePieceModel> Load(const std::string& path, std::string* error);
  ~SentencePieceModel();

  // False with the fault in *error. REQUIRES: text is valid UTF-8.
  bool Encode(std::string_view text, std::vector<SentencePiece>* pieces, std::string* error) const;
  std::string Decode(const std::vector<std::string>& pieces) const;

  int32_t size() const;
  // REQUIRES: 0 <= id < size().
  std::string IdToPiece(int32_t id) const;
  // kUnknown for pieces that the model does not have, too.
  PieceKind KindOf(std::string_view piece) const;
  // True when `piece` is the model's unknown piece itself.
  bool IsUnknownPiece(std::string_view piece) const;

  // Whether decoding drops the space of the first piece, and of those behind while nothing but
  // spaces was dropped.
  bool drops_first_space() const { return drops_first_space_; }
  bool drops_all_leading_spaces() const { return drops_all_leading_spaces_; }

 private:
  struct Impl;
  explicit SentencePieceModel(std::unique_ptr<Impl> impl);
  void ProbeLeadingSpaces();

  std::unique_ptr<Impl> impl_;
  bool drops_first_space_ = false;
  bool drops_all_leading_spaces_ = false;
};

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // "▁"

}  // namespace beamline::text
