// Short texts about what a user wrote: error lines, and names that were probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// Whether all of it shows as it is: UTF-8 without control characters, bidirectional controls and
// other characters that a terminal does not show.
bool IsPlainText(std::string_view text);

// The longest line that a program writes about an error, its end included.
inline constexpr size_t kMaxErrorLineBytes = 480;

// At most `max_bytes` of one line of UTF-8 for people: U+FFFD for each byte that is part of no
// character, a space for each control character, "<U+202E>" for what would reorder the line or
// not show; of a longer text its beginning and its end, " ... " between them. REQUIRES: max_bytes
// >= 16.
std::string Shorten(std::string_view text, size_t max_bytes = 100);

// "PROGRAM: MESSAGE\n", shortened to kMaxErrorLineBytes.
std::string ErrorLine(std::string_view program, std::string_view message);

// Of the status's message.
std::string ErrorLine(std::string_view program, const absl::Status& status);

// The candidate that `name` is most likely a misspelling or a beginning of; empty when none is
// near.
std::string Closest(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'CLOSEST'?", or nothing.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace beamline
