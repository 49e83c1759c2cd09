#include "engine/text/byte_alphabet.h"

#include "base/utf8.h"

namespace beamline::text {
namespace {

constexpr size_t kNumSpelled = 0x144;  // all spelling characters are below this
constexpr int16_t kNotSpelled = -1;

struct Alphabet {
  std::array<std::string, 256> spelling;
  std::array<int16_t, kNumSpelled> byte;

  // Printable Latin-1 characters spell themselves; the other bytes are U+0100 and following.
  Alphabet() {
    byte.fill(kNotSpelled);
    char32_t next = 0x100;
    for (int16_t b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      AppendUtf8(c, &spelling[static_cast<size_t>(b)]);
      byte[c] = b;
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

const std::array<std::string, 256>& ByteSpellings() { return TheAlphabet().spelling; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  const Alphabet& alphabet = TheAlphabet();
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t position = 0; position < spelling.size();) {
    const char32_t c = ReadChar(spelling, &position);
    if (c >= kNumSpelled || alphabet.byte[c] == kNotSpelled) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet.byte[c]));
  }
  return bytes;
}

}  // namespace beamline::text
