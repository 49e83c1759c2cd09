#include "loadtest/report/markup.h"

#include "base/text.h"

namespace beamline::loadtest {
namespace {

std::string EscapePrintable(std::string_view text) {
  // U+FFFE and U+FFFF, which XML does not allow.
  constexpr std::string_view kNoCharacters[] = {"\xEF\xBF\xBE", "\xEF\xBF\xBF"};
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with(kNoCharacters[0]) || rest.starts_with(kNoCharacters[1])) {
      escaped += "\xEF\xBF\xBD";
      i += 2;
    } else if (text[i] == '<') {
      escaped += "&lt;";
    } else if (text[i] == '>') {
      escaped += "&gt;";
    } else if (text[i] == '&') {
      escaped += "&amp;";
    } else if (text[i] == '"') {
      escaped += "&quot;";
    } else if (text[i] == '\'') {
      escaped += "&#39;";
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

}  // namespace

std::string Escape(std::string_view text, size_t max_bytes) {
  return EscapePrintable(Shorten(text, max_bytes));
}

std::string EscapeLines(std::string_view text, size_t max_bytes) {
  std::string escaped;
  size_t begin = 0;
  while (begin < text.size() && escaped.size() < max_bytes) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    escaped += Escape(text.substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  if (begin < text.size()) escaped += "...\n";
  return escaped;
}

}  // namespace beamline::loadtest
