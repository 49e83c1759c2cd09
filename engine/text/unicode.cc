#include "engine/text/unicode.h"

#include <unicode/uchar.h>

namespace beamline::text {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }

bool HasCategory(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(Icu(c)) & mask) != 0; }

bool IsOlderThan(char32_t c, uint8_t major_version) {
  UVersionInfo age;
  u_charAge(Icu(c), age);
  return age[0] != 0 && age[0] < major_version;
}

// Capital letters of Unicode 16 and 17, which Rust knows but older ICU versions do not.
struct CaseRange {
  char32_t first;
  char32_t last;
  int32_t offset;
};
constexpr CaseRange kNewCases[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

}  // namespace

bool IsWhitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_isUWhiteSpace(Icu(c));
}

bool IsNumeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return HasCategory(c, U_GC_N_MASK);
}

bool IsWordChar(char32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
  }
  return HasCategory(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(Icu(c), UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(Icu(c), UCHAR_JOIN_CONTROL);
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  if (c == 0x166D || c == 0x111C9) return true;  // changed category after Unicode 8
  return HasCategory(c, U_GC_P_MASK) && IsOlderThan(c, 9);
}

bool IsControl(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  return HasCategory(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && IsOlderThan(c, 9);
}

bool IsNonspacingMark(char32_t c) {
  if (c == 0x1734) return true;  // these five changed category after Unicode 8
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;
  return c >= 0x300 && HasCategory(c, U_GC_MN_MASK) && IsOlderThan(c, 9);
}

bool IsMark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // these three changed category after Unicode 9
  if (c == 0x111C9) return false;
  return c >= 0x300 && HasCategory(c, U_GC_M_MASK) && IsNormalized(c);
}

bool IsNormalized(char32_t c) { return c < 0x300 || IsOlderThan(c, 10); }

void ToLower(char32_t c, char32_t lower[2], int* count) {
  *count = 1;
  if (c < 0x80) {
    lower[0] = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    return;
  }
  if (c == 0x130) {  // the only character whose lower case is two: i and a combining dot above
    lower[0] = 'i';
    lower[1] = 0x307;
    *count = 2;
    return;
  }
  for (const CaseRange& range : kNewCases) {
    if (c < 0x1C89) break;
    if (c >= range.first && c <= range.last) {
      lower[0] = static_cast<char32_t>(static_cast<int32_t>(c) + range.offset);
      return;
    }
  }
  lower[0] = static_cast<char32_t>(u_tolower(Icu(c)));
}

}  // namespace beamline::text
