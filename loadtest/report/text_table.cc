#include "loadtest/report/text_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

// Terminal columns of UTF-8 text; wide characters are not supported.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, bool last_is_text)
    : last_is_text_(last_is_text) {
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      if (last_is_text_ && i + 1 == row.size()) {
        line += "  " + row[i];
      } else {
        line += i == 0 ? "  " + row[i] + padding : "  " + padding + row[i];
      }
    }
    text += line + '\n';
    if (&row != &rows_.front()) continue;
    text += "  ";
    size_t width = 2 * widths.size();
    for (const size_t one : widths) width += one;
    for (size_t i = 2; i < width; ++i) text += "─";
    text += '\n';
  }
  return text;
}

std::string FormatNumber(double number) {
  if (number == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(number))));
  return fmt::format("{:.{}f}", number, std::clamp(2 - magnitude, 0, 3));
}

std::string FormatMs(double ns) { return FormatNumber(ns / 1e6); }

}  // namespace beamline::loadtest
