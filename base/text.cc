#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::string_view kGap = " ... ";

constexpr std::string_view kReplacement = "\uFFFD";

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

// The length in bytes of the character that the text begins with; 0 when it begins with none.
size_t FirstCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!ContinuesCharacter(text[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  return code < least || code > 0x10FFFF || is_surrogate ? 0 : length;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t length = FirstCharacter(text);
    const bool is_control = static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F;
    printable += length == 0 ? kReplacement : is_control ? " " : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return printable;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = FirstCharacter(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Shorten(std::string_view text, size_t max_bytes) {
  // What is left out of a long text need not be made printable.
  const bool is_long = text.size() > 4 * max_bytes;
  const std::string first = Printable(is_long ? text.substr(0, max_bytes) : text);
  const std::string last = is_long ? Printable(text.substr(text.size() - max_bytes)) : first;
  if (!is_long && first.size() <= max_bytes) return first;
  // The beginning says where, the end what would be right: two thirds for the one.
  const size_t kept = max_bytes - kGap.size();
  size_t head = kept * 2 / 3;
  size_t tail = last.size() - (kept - head);
  while (head > 0 && ContinuesCharacter(first[head])) --head;
  while (tail < last.size() && ContinuesCharacter(last[tail])) ++tail;
  return fmt::format("{}{}{}", first.substr(0, head), kGap, last.substr(tail));
}

std::string ErrorLine(std::string_view program, std::string_view message) {
  std::string line = fmt::format(
      "{}: {}", program, Shorten(message, kMaxErrorLineBytes - program.size() - sizeof(": ")));
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
