// Splits a JSON text into its members or items without changing them. A parsed value does not keep
// the order of an object's members.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace beamline {

struct JsonMember {
  std::string name;
  std::string_view value;
};

// REQUIRES: the text is valid JSON, an object.
std::vector<JsonMember> ObjectMembers(std::string_view text);
// REQUIRES: the text is valid JSON, a list.
std::vector<std::string_view> ListItems(std::string_view text);

}  // namespace beamline
