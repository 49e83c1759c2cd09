#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::string_view kGap = " ... ";

// Characters that are invisible, or change how a terminal orders and breaks the text around them:
// bidirectional controls, line and paragraph separators, invisible formats, tags. Joiners (U+200C,
// U+200D) are allowed because words contain them.
constexpr std::array<std::pair<uint32_t, uint32_t>, 12> kInvisible = {{{0xAD, 0xAD},
                                                                       {0x61C, 0x61C},
                                                                       {0x180E, 0x180E},
                                                                       {0x200B, 0x200B},
                                                                       {0x200E, 0x200F},
                                                                       {0x2028, 0x202E},
                                                                       {0x2060, 0x206F},
                                                                       {0xFEFF, 0xFEFF},
                                                                       {0xFFF9, 0xFFFB},
                                                                       {0x1D173, 0x1D17A},
                                                                       {0xE0001, 0xE0001},
                                                                       {0xE0020, 0xE007F}}};

// The number of insertions, deletions, replacements and swaps of neighbours between two texts. Case
// is ignored, and '_' equals '-', because settings and flags differ in these.
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

// Controls of ASCII and Latin-1. Terminals accept Latin-1's CSI (0x9B) like ESC [.
bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

bool IsInvisible(uint32_t code) {
  return std::any_of(kInvisible.begin(), kInvisible.end(), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

// Only printable ASCII: fast path for most messages.
bool IsPlainAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

// Removes the first character of the text and returns it; nullopt if the byte is not part of a
// character.
std::optional<char32_t> TakeCharacter(std::string_view& text) {
  const bool is_valid = ScanUtf8(text).kind == Utf8Scan::kValid;
  size_t length = 0;
  const char32_t code = is_valid ? ReadChar(text, &length) : 0;
  text.remove_prefix(is_valid ? length : 1);
  return is_valid ? std::optional(code) : std::nullopt;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::string_view rest = text;
    const std::optional<char32_t> code = TakeCharacter(text);
    if (!code.has_value()) {
      printable += kReplacementCharacter;
    } else if (IsControl(*code)) {
      printable += ' ';
    } else if (IsInvisible(*code)) {
      printable += fmt::format("<U+{:04X}>", static_cast<uint32_t>(*code));
    } else {
      printable += rest.substr(0, rest.size() - text.size());
    }
  }
  return printable;
}

}  // namespace

bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    const std::optional<char32_t> code = TakeCharacter(text);
    if (!code.has_value() || IsControl(*code) || IsInvisible(*code)) return false;
  }
  return true;
}

std::string Shorten(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes && IsPlainAscii(text)) return std::string(text);
  // The part of a long text that is left out need not be made printable.
  const bool is_long = text.size() > 4 * max_bytes;
  const std::string first = Printable(is_long ? text.substr(0, max_bytes) : text);
  const std::string last = is_long ? Printable(text.substr(text.size() - max_bytes)) : first;
  if (!is_long && first.size() <= max_bytes) return first;
  // The start tells where the error is, the end what is accepted: two thirds for the start.
  const size_t kept = max_bytes - kGap.size();
  size_t head = kept * 2 / 3;
  size_t tail = last.size() - (kept - head);
  while (head > 0 && IsContinuationByte(first[head])) --head;
  while (tail < last.size() && IsContinuationByte(last[tail])) ++tail;
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
  constexpr size_t kLongestName = 100;  // longer than all names here; the work is quadratic
  if (name.empty() || name.size() > kLongestName) return "";
  std::string closest;
  // Allows one edit per three characters. A prefix of three letters also counts as close.
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
