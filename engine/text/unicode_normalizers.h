// Normalizers based on Unicode properties: NFC and the like, case, accents, BERT's cleaning.
#pragma once

#include <memory>

#include "engine/text/normalizers.h"

namespace beamline::text {

enum class NormalizationForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Applies a Unicode normalization form; a composed character keeps the origin of its first part.
void NormalizeUnicode(NormalizationForm form, AlignedText* text);
void Lowercase(AlignedText* text);
// Removes the characters for which remove(char32_t) is true.
template <typename Predicate>
void RemoveChars(Predicate remove, AlignedText* text) {
  text->RewriteChars([&](char32_t c, ByteRange source, AlignedWriter* writer) {
    if (!remove(c)) writer->Append(c, source);
  });
}

std::unique_ptr<Normalizer> MakeFormNormalizer(NormalizationForm form);
std::unique_ptr<Normalizer> MakeLowercaseNormalizer();
std::unique_ptr<Normalizer> MakeStripAccentsNormalizer();
// Removes and unifies control characters and spaces as SentencePiece's "nmt" rules do.
std::unique_ptr<Normalizer> MakeNmtNormalizer();
absl::StatusOr<std::unique_ptr<Normalizer>> MakeBertNormalizer(const JsonNode& node);

}  // namespace beamline::text
