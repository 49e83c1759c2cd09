// A SentencePiece model file (.spm) of any bytes, and texts cut by it.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/text/sentencepiece_file.h"
#include "engine/text/sentencepiece_model.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

constexpr std::array<std::string_view, 4> kTexts = {
    "Hello,  w\u00f6rld! ab\u4e2d a\u0301 \U0001F600", "", "   ", "abababab\t\uFF21"};

// Pieces follow each other through the text.
void CheckPieces(const text::SentencePieceModel& model, std::string_view text) {
  int32_t position = 0;
  const auto pieces = model.Encode(text);
  if (!pieces.ok()) return CheckRefusal(pieces.status(), "tokenizer");
  for (const text::SentencePiece& piece : *pieces) {
    BEAMLINE_CHECK(piece.begin >= position && piece.begin <= piece.end);
    BEAMLINE_CHECK(static_cast<size_t>(piece.end) <= text.size());
    BEAMLINE_CHECK(!piece.text.empty() && IsValidUtf8(piece.text));
    position = piece.begin;
    model.KindOf(piece.text);
  }
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  static const TemporaryFolder folder;
  const std::string path = folder.path() + "/source.spm";
  folder.Write("source.spm", AsText(data, size));
  const auto model = text::SentencePieceModel::Load(CheckpointPath(path));
  if (!model.ok()) {
    CheckRefusal(model.status(), path);
    return 0;
  }
  BEAMLINE_CHECK(IsValidUtf8((*model)->unknown_surface()));
  for (const std::string_view text : kTexts) CheckPieces(**model, text);
  return 0;
}
