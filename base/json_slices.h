// The parts of a JSON text as they stand in it: where the order of an object's members counts,
// which a parsed value does not keep.
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
