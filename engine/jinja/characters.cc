#include "engine/jinja/characters.h"

#include <unicode/locid.h>
#include <unicode/stringoptions.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/utf8.h"

namespace beamline::jinja {
namespace {

icu::UnicodeString Wide(std::string_view text) {
  return icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
}

std::string Narrow(const icu::UnicodeString& text) {
  std::string made;
  text.toUTF8String(made);
  return made;
}

std::string TitleCharacter(std::string_view character) {
  icu::UnicodeString wide = Wide(character);
  constexpr uint32_t kAsItIs = U_TITLECASE_NO_BREAK_ADJUSTMENT | U_TITLECASE_WHOLE_STRING;
  wide.toTitle(nullptr, icu::Locale::getRoot(), kAsItIs);
  return Narrow(wide);
}

UChar32 Of(char32_t c) { return static_cast<UChar32>(c); }

}  // namespace

std::string Upper(std::string_view text) {
  return Narrow(Wide(text).toUpper(icu::Locale::getRoot()));
}

std::string Lower(std::string_view text) {
  return Narrow(Wide(text).toLower(icu::Locale::getRoot()));
}

std::string Title(std::string_view text) {
  std::string made;
  bool in_word = false;
  size_t word = 0;  // start of the letters to convert to lower case
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = ReadChar(text, &i);
    const bool cased = u_hasBinaryProperty(Of(c), UCHAR_CASED) != 0;
    if (cased && !in_word) {
      made += TitleCharacter(text.substr(begin, i - begin));
      word = i;
    } else if (!cased) {
      if (in_word) made += Lower(text.substr(word, begin - word));
      made += text.substr(begin, i - begin);
    }
    in_word = cased;
  }
  if (in_word) made += Lower(text.substr(word));
  return made;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = CharLength(text[0]);
  return TitleCharacter(text.substr(0, first)) + Lower(text.substr(first));
}

std::string SwapCase(std::string_view text) {
  std::string made;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = ReadChar(text, &i);
    const std::string_view character = text.substr(begin, i - begin);
    made += IsUpperCharacter(c)   ? Lower(character)
            : IsLowerCharacter(c) ? Upper(character)
                                  : std::string(character);
  }
  return made;
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  switch (u_charType(Of(c))) {
    case U_UNASSIGNED:
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_PRIVATE_USE_CHAR:
    case U_SURROGATE:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(char32_t c) { return u_isalpha(Of(c)) != 0; }
bool IsDecimal(char32_t c) { return u_charType(Of(c)) == U_DECIMAL_DIGIT_NUMBER; }
bool IsDigitCharacter(char32_t c) {
  const int32_t type = u_getIntPropertyValue(Of(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool IsNumericCharacter(char32_t c) {
  return u_getIntPropertyValue(Of(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool IsLowerCharacter(char32_t c) { return u_hasBinaryProperty(Of(c), UCHAR_LOWERCASE) != 0; }
bool IsUpperCharacter(char32_t c) { return u_hasBinaryProperty(Of(c), UCHAR_UPPERCASE) != 0; }

}  // namespace beamline::jinja
