#include "tests/engine/chrf.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"

namespace beamline {
namespace {

constexpr size_t kMaxOrder = 6;
constexpr double kBetaSquared = 4.0;

struct Counts {
  double text = 0, reference = 0, shared = 0;
};

std::u32string VisibleCharacters(std::string_view text) {
  std::u32string characters;
  for (size_t position = 0; position < text.size();) {
    const char32_t c = ReadChar(text, &position);
    const bool is_space = c == U' ' || (c >= U'\t' && c <= U'\r') || c == 0x85 || c == 0xA0 ||
                          (c >= 0x2000 && c <= 0x200A) || c == 0x3000;
    if (!is_space) characters.push_back(c);
  }
  return characters;
}

std::map<std::u32string_view, int> Groups(std::u32string_view text, size_t order) {
  std::map<std::u32string_view, int> groups;
  for (size_t i = 0; i + order <= text.size(); ++i) ++groups[text.substr(i, order)];
  return groups;
}

void AddCounts(std::u32string_view text, std::u32string_view reference, size_t order,
               Counts& counts) {
  const auto in_text = Groups(text, order), in_reference = Groups(reference, order);
  for (const auto& [group, count] : in_text) {
    counts.text += count;
    const auto found = in_reference.find(group);
    if (found != in_reference.end()) counts.shared += std::min(count, found->second);
  }
  for (const auto& [group, count] : in_reference) counts.reference += count;
}

}  // namespace

double CorpusChrf(const std::vector<std::string>& texts,
                  const std::vector<std::string>& references) {
  BEAMLINE_CHECK(texts.size() == references.size());
  Counts counts[kMaxOrder];
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::u32string text = VisibleCharacters(texts[i]);
    const std::u32string reference = VisibleCharacters(references[i]);
    for (size_t order = 1; order <= kMaxOrder; ++order) {
      AddCounts(text, reference, order, counts[order - 1]);
    }
  }
  double precision = 0, recall = 0;
  int orders = 0;  // that both sides are long enough for
  for (const Counts& count : counts) {
    if (count.text == 0 || count.reference == 0) continue;
    precision += count.shared / count.text;
    recall += count.shared / count.reference;
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * (1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);
}

}  // namespace beamline
