// Character classes as the Rust crates behind Hugging Face's tokenizers define them.
#pragma once

#include <cstdint>

namespace beamline::text {

bool IsWhitespace(char32_t c);           // char::is_whitespace: the White_Space property
bool IsNumeric(char32_t c);              // char::is_numeric: Nd, Nl, No
bool IsWordChar(char32_t c);             // \w of the regex crate
bool IsPunctuation(char32_t c);          // ASCII punctuation and the P* categories
bool IsControlOrUnassigned(char32_t c);  // what BertNormalizer's clean_text removes: Cc, Cf, Cn, Co
bool IsNonspacingMark(char32_t c);       // Mn
bool IsMark(char32_t c);                 // Mn, Mc, Me

// Full lower-case mapping of one character, without context: 1 or 2 characters, count in *count.
void ToLower(char32_t c, char32_t lower[2], int* count);

}  // namespace beamline::text
