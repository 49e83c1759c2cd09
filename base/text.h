// Short texts about user input: error lines and suggestions for misspelled names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// Whether a terminal shows all of the text as it is: valid UTF-8 without control characters,
// bidirectional controls or invisible characters.
bool IsPlainText(std::string_view text);

// The longest error line that a program writes, including its line end.
inline constexpr size_t kMaxErrorLineBytes = 480;

// Makes text printable on one line of at most `max_bytes` bytes. Bytes that are not UTF-8 become
// U+FFFD, control characters become spaces. Characters that are invisible or reorder the line
// become "<U+202E>". A longer text keeps its start and its end, with " ... " between them.
// REQUIRES: max_bytes >= 16.
std::string Shorten(std::string_view text, size_t max_bytes = 100);

// "PROGRAM: MESSAGE\n", shortened to kMaxErrorLineBytes.
std::string ErrorLine(std::string_view program, std::string_view message);

// Uses the status's message.
std::string ErrorLine(std::string_view program, const absl::Status& status);

// The candidate that `name` most likely misspells or abbreviates; empty if none is close.
std::string Closest(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean 'CLOSEST'?", or nothing.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace beamline
