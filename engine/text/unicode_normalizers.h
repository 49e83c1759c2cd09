// Normalizers that work on Unicode properties: NFC and its kin, case, accents, BERT's cleaning.
#pragma once

#include <memory>

#include "engine/text/normalizers.h"

namespace beamline::text {

enum class NormalizationForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// The Unicode normalization form; a composed character keeps the origin of its first part.
void NormalizeUnicode(NormalizationForm form, AlignedText* text);
void Lowercase(AlignedText* text);
// Removes the characters for which remove(char32_t) holds.
template <typename Predicate>
void RemoveChars(Predicate remove, AlignedText* text) {
  text->RewriteChars([&](char32_t c, ByteRange source, AlignedWriter* writer) {
    if (!remove(c)) writer->Append(c, source);
  });
}

std::unique_ptr<Normalizer> MakeFormNormalizer(NormalizationForm form);
std::unique_ptr<Normalizer> MakeLowercaseNormalizer();
std::unique_ptr<Normalizer> MakeStripAccentsNormalizer();
// The control characters and spaces that SentencePiece's "nmt" rules remove and unify.
std::unique_ptr<Normalizer> MakeNmtNormalizer();
absl::StatusOr<std::unique_ptr<Normalizer>> MakeBertNormalizer(const JsonNode& node);

}  // namespace beamline::text
