// Case and character classes as in Python's strings.
#pragma once

#include <string>
#include <string_view>

namespace beamline::jinja {

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Title(std::string_view text);       // str.title
std::string Capitalize(std::string_view text);  // str.capitalize
std::string SwapCase(std::string_view text);

bool IsPrintable(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigitCharacter(char32_t c);  // str.isdigit
bool IsNumericCharacter(char32_t c);
bool IsLowerCharacter(char32_t c);
bool IsUpperCharacter(char32_t c);

}  // namespace beamline::jinja
