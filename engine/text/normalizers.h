// The "normalizer" of a tokenizer.json: rewrites text before it is split into words.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/aligned_text.h"
#include "engine/text/component_json.h"

namespace beamline::text {

// Immutable, thread safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual absl::Status Normalize(AlignedText* text) const = 0;
};

// Inserts prefix before the text, with the origin of the first character; empty text stays empty.
void Prepend(std::string_view prefix, AlignedText* text);
// Replaces each byte by its spelling (byte_alphabet.h).
void SpellBytes(AlignedText* text);

// `node` is the component's object including its "type".
absl::StatusOr<std::unique_ptr<Normalizer>> MakeNormalizer(const JsonNode& node);

}  // namespace beamline::text
