#include "engine/jinja/string_literal.h"

#include <cstdint>

#include "base/utf8.h"

namespace beamline::jinja {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads a character of `count` hexadecimal digits.
std::optional<char32_t> ReadHex(std::string_view digits, size_t count) {
  if (digits.size() < count) return std::nullopt;
  uint32_t c = 0;
  for (const char digit : digits.substr(0, count)) {
    if (HexDigit(digit) < 0) return std::nullopt;
    c = c * 16 + static_cast<uint32_t>(HexDigit(digit));
  }
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return std::nullopt;
  return c;
}

char SimpleEscape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

}  // namespace

std::optional<std::string> UnescapeString(std::string_view literal, std::string* fault) {
  std::string text;
  text.reserve(literal.size());
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text.push_back(literal[i]);
      continue;
    }
    const char c = literal[++i];
    if (c == '\n') continue;
    if (const char simple = SimpleEscape(c); simple != '\0') {
      text.push_back(simple);
    } else if (c >= '0' && c <= '7') {
      char32_t number = 0;
      size_t end = i;
      while (end < literal.size() && end < i + 3 && literal[end] >= '0' && literal[end] <= '7') {
        number = number * 8 + static_cast<char32_t>(literal[end++] - '0');
      }
      AppendUtf8(number, &text);
      i = end - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto number = ReadHex(literal.substr(i + 1), count);
      if (!number.has_value()) {
        *fault = "an escape in a string that is no character";
        return std::nullopt;
      }
      AppendUtf8(*number, &text);
      i += count;
    } else if (c == 'N') {
      *fault = "'\\N{...}' in a string is not supported";
      return std::nullopt;
    } else {
      text.push_back('\\');
      text.push_back(c);
    }
  }
  return text;
}

}  // namespace beamline::jinja
