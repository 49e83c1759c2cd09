#include "base/utf8.h"

#include <cstring>

namespace beamline {

Utf8Scan ScanUtf8(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Scan::kValid, 1};
  // Unicode 15.0, table 3-7: the second byte's range depends on the first byte.
  uint8_t length = 0, low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Scan::kInvalid, 1};
  }
  for (uint8_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8Scan::kIncomplete, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Scan::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Scan::kValid, length};
}

namespace {

// Length of the ASCII prefix, scanned eight bytes at a time.
size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

bool IsAscii(std::string_view text) { return AsciiPrefix(text) == text.size(); }

std::optional<size_t> FindInvalidUtf8(std::string_view bytes) {
  size_t position = 0;
  while (true) {
    position += AsciiPrefix(bytes.substr(position));
    if (position == bytes.size()) return std::nullopt;
    const Utf8Scan scan = ScanUtf8(bytes.substr(position));
    if (scan.kind != Utf8Scan::kValid) return position;
    position += scan.length;
  }
}

void DrainLossy(std::string* pending, bool at_end, std::string* out) {
  size_t position = 0;
  while (position < pending->size()) {
    const std::string_view rest = std::string_view(*pending).substr(position);
    const Utf8Scan scan = ScanUtf8(rest);
    if (scan.kind == Utf8Scan::kIncomplete && !at_end) break;
    out->append(scan.kind == Utf8Scan::kValid ? rest.substr(0, scan.length)
                                              : kReplacementCharacter);
    position += scan.length;
  }
  pending->erase(0, position);
}

}  // namespace beamline
