#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::string_view kGap = " ... ";

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Insertions, deletions, replacements and swaps of neighbours that make one text of the other; case
// does not count, nor do '_' and '-' differ: they are what settings and flags differ in.
size_t EditDistance(std::string_view a, std::string_view b) {
  const auto at = [](std::string_view text, size_t i) {
    return text[i] == '_' ? '-' : std::tolower(static_cast<unsigned char>(text[i]));
  };
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (at(a, i - 1) == at(b, j - 1) ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool is_swap =
          i > 1 && j > 1 && at(a, i - 1) == at(b, j - 2) && at(a, i - 2) == at(b, j - 1);
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() - i < length) return false;
    uint32_t code = first & (0x7Fu >> length);
    for (size_t j = 1; j < length; ++j) {
      if (!ContinuesCharacter(text[i + j])) return false;
      code = code << 6 | (static_cast<unsigned char>(text[i + j]) & 0x3Fu);
    }
    const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += length;
  }
  return true;
}

std::string Shorten(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const size_t kept = max_bytes - kGap.size();
  size_t head = kept * 2 / 3;
  size_t tail = text.size() - (kept - head);
  while (head > 0 && ContinuesCharacter(text[head])) --head;
  while (tail < text.size() && ContinuesCharacter(text[tail])) ++tail;
  return fmt::format("{}{}{}", text.substr(0, head), kGap, text.substr(tail));
}

std::string ErrorLine(std::string_view program, std::string_view message) {
  std::string line = fmt::format(
      "{}: {}", program, Shorten(message, kMaxErrorLineBytes - program.size() - sizeof(": ")));
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  std::replace_if(line.begin(), line.end(), is_control, ' ');
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string ErrorLine(std::string_view program, const absl::Status& status) {
  return ErrorLine(program, std::string(status.message()));
}

std::string Closest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 100;  // no name of ours is longer, and the work is quadratic
  if (name.empty() || name.size() > kLongestName) return "";
  std::string closest;
  // One slip in three characters; a beginning of three characters says enough.
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestName) continue;
    size_t distance = EditDistance(name, candidate);
    const size_t letters = name.size() - std::min(name.size(), name.find_first_not_of('-'));
    if (letters >= 3 && candidate.starts_with(name)) distance = 1;
    if (distance < least) {
      least = distance;
      closest = candidate;
    }
  }
  return closest;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string closest = Closest(name, candidates);
  return closest.empty() ? "" : fmt::format("; did you mean '{}'?", closest);
}

}  // namespace beamline
