#include "base/json_slices.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace beamline {
namespace {

constexpr std::string_view kSpace = " \t\n\r";

// The position after the string that starts at `begin`.
size_t StringEnd(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// The position after the value that starts at `begin`: its comma or closing bracket.
size_t ValueEnd(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = StringEnd(text, i);
      continue;
    }
    if (depth == 0 && (c == ',' || c == ']' || c == '}')) return i;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    ++i;
  }
  return text.size();
}

std::string_view Strip(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

std::vector<std::string_view> ListItems(std::string_view text) {
  std::vector<std::string_view> items;
  for (size_t i = text.find('[') + 1; i < text.size();) {
    const size_t end = ValueEnd(text, i);
    const std::string_view item = Strip(text.substr(i, end - i));
    if (!item.empty()) items.push_back(item);
    i = end + 1;
  }
  return items;
}

std::vector<JsonMember> ObjectMembers(std::string_view text) {
  std::vector<JsonMember> members;
  for (size_t i = text.find('{') + 1; i < text.size();) {
    const size_t name = text.find_first_not_of(kSpace, i);
    if (name == std::string_view::npos || text[name] != '"') break;
    const size_t name_end = StringEnd(text, name);
    const size_t value = text.find(':', name_end) + 1;
    const size_t end = ValueEnd(text, value);
    const auto parsed = nlohmann::json::parse(text.substr(name, name_end - name), nullptr, false);
    members.push_back({parsed.is_string() ? parsed.get<std::string>() : std::string(),
                       Strip(text.substr(value, end - value))});
    i = end + 1;
  }
  return members;
}

}  // namespace beamline
