// Steps around tokenizing that all tokenizers share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/text/post_processor.h"
#include "engine/text/tokenizer.h"

namespace beamline::text {

// INVALID_ARGUMENT if the text is not UTF-8 or longer than 1 GiB.
absl::Status CheckText(std::string_view text);

// INVALID_ARGUMENT naming the first id outside [0, vocab_size).
absl::Status CheckIds(std::span<const int32_t> ids, int32_t vocab_size);

// Drops tokens from one side until they fit together with `num_template_tokens`.
void Truncate(const EncodeTextOptions& options, int32_t num_template_tokens,
              std::vector<Token>* tokens);

struct TextPair {
  std::span<const int32_t> first, second;  // ids, without template
};
// Truncates two texts to `max_tokens` together; kNone keeps everything.
TextPair TruncatePair(TextPair texts, Truncation truncation, int32_t max_tokens);
// Concatenates `pieces` in order, and inserts the texts at their positions.
PairIds JoinPair(std::span<const PairPiece> pieces, const TextPair& texts);

// Adds the template around the tokens of a text of `text_size` bytes.
void AddTemplate(std::span<const int32_t> prefix, std::span<const int32_t> suffix, size_t text_size,
                 std::vector<Token>* tokens);

}  // namespace beamline::text
