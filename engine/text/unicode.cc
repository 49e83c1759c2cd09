#include "engine/text/unicode.h"

#include <unicode/uchar.h>

namespace beamline::text {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }

bool HasCategory(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(Icu(c)) & mask) != 0; }

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
  return HasCategory(c, U_GC_P_MASK);
}

bool IsControlOrUnassigned(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  return HasCategory(c, U_GC_C_MASK);
}

bool IsNonspacingMark(char32_t c) { return c >= 0x300 && HasCategory(c, U_GC_MN_MASK); }

bool IsMark(char32_t c) { return c >= 0x300 && HasCategory(c, U_GC_M_MASK); }

void ToLower(char32_t c, char32_t lower[2], int* count) {
  *count = 1;
  if (c == 0x130) {  // the only character whose lower case is two: i and a combining dot above
    lower[0] = 'i';
    lower[1] = 0x307;
    *count = 2;
    return;
  }
  lower[0] = static_cast<char32_t>(u_tolower(Icu(c)));
}

}  // namespace beamline::text
