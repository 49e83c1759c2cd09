// UTF-8 decoding, encoding and validation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace beamline {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Describes the first character of arbitrary bytes.
struct Utf8Scan {
  enum Kind : uint8_t {
    kValid,
    kInvalid,     // `length` bytes that cannot be part of a character
    kIncomplete,  // `length` bytes that start a character; more bytes could complete it
  };
  Kind kind;
  uint8_t length;
};

// REQUIRES: !bytes.empty(). Invalid bytes are grouped as the Unicode standard recommends ("maximal
// subparts"), which is also what Rust's from_utf8_lossy does.
Utf8Scan ScanUtf8(std::string_view bytes);

// The offset of the first byte that is not part of a valid character.
std::optional<size_t> FindInvalidUtf8(std::string_view bytes);

// Whether the bytes are UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
inline bool IsValidUtf8(std::string_view bytes) { return !FindInvalidUtf8(bytes).has_value(); }

// Moves the characters of *pending to *out, with U+FFFD for each invalid part. An incomplete
// character at the end stays in *pending; with `at_end` it counts as invalid.
void DrainLossy(std::string* pending, bool at_end, std::string* out);

inline bool IsContinuationByte(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// REQUIRES: lead starts a valid character.
inline size_t CharLength(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Reads the character at text[*position] and moves *position after it.
// REQUIRES: text is valid UTF-8, *position is on a character and before the end.
inline char32_t ReadChar(std::string_view text, size_t* position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[*position + i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) {
    *position += 1;
    return lead;
  }
  if (lead < 0xE0) {
    const char32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    *position += 2;
    return c;
  }
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    *position += 3;
    return c;
  }
  const char32_t c =
      (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  *position += 4;
  return c;
}

// Reads the character that ends at text[end - 1]; *begin is its start. REQUIRES: text is valid, end
// > 0.
inline char32_t ReadCharBefore(std::string_view text, size_t end, size_t* begin) {
  size_t position = end - 1;
  while (IsContinuationByte(text[position])) --position;
  *begin = position;
  return ReadChar(text, &position);
}

inline void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

bool IsAscii(std::string_view text);

}  // namespace beamline
