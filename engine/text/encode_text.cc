#include "engine/text/encode_text.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

absl::Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        fmt::format("text of {} bytes; at most {} are accepted", text.size(), kMaxTextBytes));
  }
  if (const auto bad = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(fmt::format("text is not valid UTF-8 at byte {} (0x{:02X})",
                                                  *bad, static_cast<uint8_t>(text[*bad])));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(std::span<const int32_t> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return absl::InvalidArgumentError(
          fmt::format("token id {} at position {} is outside 0..{}", ids[i], i, vocab_size - 1));
    }
  }
  return absl::OkStatus();
}

void Truncate(const EncodeTextOptions& options, int32_t num_template_tokens,
              std::vector<Token>* tokens) {
  if (options.truncation == Truncation::kNone) return;
  BEAMLINE_CHECK(options.max_tokens >= num_template_tokens);
  const auto kept = static_cast<size_t>(options.max_tokens - num_template_tokens);
  if (tokens->size() <= kept) return;
  if (options.truncation == Truncation::kLeft) {
    tokens->erase(tokens->begin(), tokens->end() - static_cast<ptrdiff_t>(kept));
  } else {
    tokens->resize(kept);
  }
}

TextPair TruncatePair(TextPair texts, Truncation truncation, int32_t max_tokens) {
  if (truncation == Truncation::kNone) return texts;
  BEAMLINE_CHECK(max_tokens >= 0);
  const auto room = static_cast<size_t>(max_tokens);
  if (texts.first.size() + texts.second.size() <= room) return texts;
  // The shorter text keeps up to half of the room; the longer one gets the rest, including an odd
  // token. Of two texts with equal length, the second counts as the longer one.
  const bool first_is_longer = texts.first.size() > texts.second.size();
  const size_t shorter = std::min({texts.first.size(), texts.second.size(), room / 2});
  const size_t longer = room - shorter;
  const auto keep = [&](std::span<const int32_t> ids, size_t count) {
    return truncation == Truncation::kLeft ? ids.last(count) : ids.first(count);
  };
  return {keep(texts.first, first_is_longer ? longer : shorter),
          keep(texts.second, first_is_longer ? shorter : longer)};
}

PairIds JoinPair(std::span<const PairPiece> pieces, const TextPair& texts) {
  PairIds joined;
  for (const PairPiece& piece : pieces) {
    std::span<const int32_t> ids(&piece.id, 1);
    if (piece.kind != PairPiece::Kind::kToken) {
      ids = piece.kind == PairPiece::Kind::kFirst ? texts.first : texts.second;
    }
    joined.ids.insert(joined.ids.end(), ids.begin(), ids.end());
    joined.type_ids.resize(joined.ids.size(), piece.type);
  }
  return joined;
}

void AddTemplate(std::span<const int32_t> prefix, std::span<const int32_t> suffix, size_t text_size,
                 std::vector<Token>* tokens) {
  const auto make = [](int32_t position) {
    return [position](int32_t id) { return Token{id, position, position, /*special=*/true}; };
  };
  std::vector<Token> front(prefix.size());
  std::transform(prefix.begin(), prefix.end(), front.begin(), make(0));
  tokens->insert(tokens->begin(), front.begin(), front.end());
  std::transform(suffix.begin(), suffix.end(), std::back_inserter(*tokens),
                 make(static_cast<int32_t>(text_size)));
}

}  // namespace beamline::text
