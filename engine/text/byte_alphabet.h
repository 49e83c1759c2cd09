// GPT-2's spelling of bytes as printable characters ("Ġ" is a space).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace beamline::text {

// The UTF-8 spelling of each byte.
const std::array<std::string, 256>& ByteSpellings();

// The bytes of a spelling; nullopt if it has a character outside the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace beamline::text
