#include "server/http/token_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/utf8.h"
#include "engine/text/byte_alphabet.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Limit of the search. A vocabulary of texts has a token of letters among the first ids.
constexpr int32_t kMostLooks = 4096;

std::string Decoded(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  return tokenizer.Decode(ids, /*skip_special_tokens=*/false).value_or("");
}

bool IsPlain(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return absl::ascii_isalpha(static_cast<unsigned char>(c));
  });
}

// A token of letters only, whose text is the same at any position.
std::optional<int32_t> FindLetter(const Tokenizer& tokenizer) {
  const auto suits = [&](int32_t id) {
    if (tokenizer.IsSpecial(id)) return false;
    const std::array<int32_t, 2> twice = {id, id};
    const std::string one = Decoded(tokenizer, std::span(twice).first(1));
    return IsPlain(one) && Decoded(tokenizer, twice).starts_with(one);
  };
  if (const auto id = tokenizer.TokenId("a"); id.has_value() && suits(*id)) return id;
  for (int32_t id = 0; id < std::min(tokenizer.vocab_size(), kMostLooks); ++id) {
    if (suits(id)) return id;
  }
  return std::nullopt;
}

// The byte of a token spelled "<0xE2>" in byte-fallback vocabularies.
std::optional<char> ByteOf(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') {
    return std::nullopt;
  }
  uint8_t byte = 0;
  const char* const end = spelling.data() + 5;
  const auto parsed = std::from_chars(spelling.data() + 3, end, byte, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

TokenTexts::TokenTexts(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), letter_(FindLetter(*tokenizer_)) {
  if (!letter_.has_value()) return;
  const std::array<int32_t, 2> twice = {*letter_, *letter_};
  one_ = Decoded(*tokenizer_, std::span(twice).first(1));
  two_ = Decoded(*tokenizer_, twice).substr(one_.size());
}

std::string TokenTexts::TextOf(int32_t id) const {
  if (letter_.has_value()) {
    // Decodes it between two letters: a decoder may change a text's first and last token.
    const std::array<int32_t, 3> ids = {*letter_, id, *letter_};
    const std::string whole = Decoded(*tokenizer_, ids);
    if (whole.size() >= one_.size() + two_.size() && whole.starts_with(one_) &&
        whole.ends_with(two_)) {
      return whole.substr(one_.size(), whole.size() - one_.size() - two_.size());
    }
  }
  return Decoded(*tokenizer_, std::span(&id, 1));
}

std::optional<std::string> TokenTexts::BytesOf(int32_t id) const {
  if (tokenizer_->IsSpecial(id)) return std::nullopt;
  std::string text = TextOf(id);
  if (text.find(kReplacementCharacter) == std::string::npos) return text;
  // A part of a character, which vocabularies spell in one of two ways.
  const std::string spelling = tokenizer_->TokenText(id);
  if (const auto byte = ByteOf(spelling); byte.has_value()) return std::string(1, *byte);
  const auto bytes = text::BytesOfSpelling(spelling);
  return bytes.has_value() && !IsValidUtf8(*bytes) ? *bytes : text;
}

std::string TokenTexts::NameOf(int32_t id) const { return Name(id, BytesOf(id), "bytes:"); }

std::string TokenTexts::ChatNameOf(int32_t id, const std::optional<std::string>& bytes) const {
  return Name(id, bytes, "");
}

std::string TokenTexts::Name(int32_t id, const std::optional<std::string>& bytes,
                             std::string_view mark) const {
  if (!bytes.has_value() || bytes->empty()) return tokenizer_->TokenText(id);
  return IsValidUtf8(*bytes) ? *bytes : fmt::format("{}{}", mark, EscapedBytes(*bytes));
}

std::string EscapedBytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace beamline
