// Character classes as in the Rust crates that Hugging Face's tokenizers use. Some of these crates
// use an old Unicode version (8 for punctuation, control characters and nonspacing marks, 9 for
// normalization), and so do these functions. The others follow the installed ICU.
#pragma once

#include <cstdint>

namespace beamline::text {

bool IsWhitespace(char32_t c);      // char::is_whitespace: the White_Space property
bool IsNumeric(char32_t c);         // char::is_numeric: Nd, Nl, No
bool IsWordChar(char32_t c);        // \w of the regex crate
bool IsPunctuation(char32_t c);     // ASCII punctuation and the P* categories
bool IsControl(char32_t c);         // Cc, Cf, Co
bool IsNonspacingMark(char32_t c);  // Mn
bool IsMark(char32_t c);            // Mn, Mc, Me
bool IsNormalized(char32_t c);      // known to the crate that normalizes

// Full lower-case mapping of one character without context: 1 or 2 characters, number in *count.
void ToLower(char32_t c, char32_t lower[2], int* count);

}  // namespace beamline::text
