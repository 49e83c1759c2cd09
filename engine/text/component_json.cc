#include "engine/text/component_json.h"

#include <fstream>
#include <utility>

#include "engine/text/utf8.h"
#include "fmt/format.h"
#include "kernels/status.h"

namespace beamline::text {
namespace {

using nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{512} << 20;
constexpr int kMaxDepth = 64;

// The parser and its destructor must never see a file that nests without end.
bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", path));
  const auto size = static_cast<int64_t>(file.tellg());
  if (size < 0 || size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes; at most {} are accepted", path, size, kMaxFileBytes));
  }
  std::string content(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(content.data(), size)) {
    return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
  }
  return content;
}

absl::StatusOr<json> ReadJsonFile(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  if (NestsTooDeep(content)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: nests deeper than {} levels", path, kMaxDepth));
  }
  try {
    return json::parse(content);
  } catch (const json::exception& e) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, e.what()));
  }
}

absl::Status JsonNode::Error(std::string_view fault) const {
  return absl::InvalidArgumentError(fmt::format("{}: {}", place_, fault));
}

bool JsonNode::Has(const char* key) const {
  if (!value_->is_object()) return false;
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

absl::StatusOr<JsonNode> JsonNode::Member(const char* key) const {
  if (!value_->is_object()) {
    return Error(fmt::format("is {}, expected an object", value_->type_name()));
  }
  if (!Has(key)) return Error(fmt::format("\"{}\" is missing", key));
  const char* separator = place_.ends_with(".json") ? ": " : ".";
  return JsonNode((*value_)[key], fmt::format("{}{}{}", place_, separator, key));
}

absl::StatusOr<JsonNode> JsonNode::Element(size_t index) const {
  return JsonNode((*value_)[index], fmt::format("{}[{}]", place_, index));
}

absl::StatusOr<std::string> JsonNode::String(const char* key) const {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, Member(key));
  if (!node.value().is_string()) {
    return node.Error(fmt::format("is {}, expected a string", node.value().type_name()));
  }
  return node.value().get<std::string>();
}

absl::StatusOr<std::string> JsonNode::StringOr(const char* key, std::string_view otherwise) const {
  if (!Has(key)) return std::string(otherwise);
  return String(key);
}

absl::StatusOr<bool> JsonNode::BoolOr(const char* key, bool otherwise) const {
  if (!Has(key)) return otherwise;
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, Member(key));
  if (!node.value().is_boolean()) {
    return node.Error(fmt::format("is {}, expected true or false", node.value().type_name()));
  }
  return node.value().get<bool>();
}

absl::StatusOr<int64_t> JsonNode::Int(const char* key, int64_t min, int64_t max) const {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, Member(key));
  const json& value = node.value();
  const bool huge =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (!value.is_number_integer() || huge || value.get<int64_t>() < min ||
      value.get<int64_t>() > max) {
    return node.Error(
        fmt::format("is {}, expected a whole number from {} to {}", value.dump(), min, max));
  }
  return value.get<int64_t>();
}

absl::StatusOr<int64_t> JsonNode::IntOr(const char* key, int64_t otherwise, int64_t min,
                                        int64_t max) const {
  if (!Has(key)) return otherwise;
  return Int(key, min, max);
}

absl::StatusOr<JsonNode> JsonNode::Object(const char* key) const {
  BEAMLINE_ASSIGN_OR_RETURN(JsonNode node, Member(key));
  if (!node.value().is_object()) {
    return node.Error(fmt::format("is {}, expected an object", node.value().type_name()));
  }
  return node;
}

absl::StatusOr<JsonNode> JsonNode::Array(const char* key) const {
  BEAMLINE_ASSIGN_OR_RETURN(JsonNode node, Member(key));
  if (!node.value().is_array()) {
    return node.Error(fmt::format("is {}, expected an array", node.value().type_name()));
  }
  return node;
}

absl::StatusOr<std::string> JsonNode::Character(const char* key) const {
  BEAMLINE_ASSIGN_OR_RETURN(std::string text, String(key));
  if (text.empty() || CharLength(text[0]) != text.size()) {
    return Error(fmt::format("\"{}\" is \"{}\", expected one character", key, text));
  }
  return text;
}

absl::StatusOr<std::string> JsonNode::Type() const { return String("type"); }

absl::Status JsonNode::UnknownType(std::string_view kind, std::string_view type) const {
  return Error(fmt::format("unknown {} type \"{}\"", kind, type));
}

}  // namespace beamline::text
