#include "engine/text/component_json.h"

#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline::text {
using nlohmann::json;

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
  if (const std::optional<int64_t> number = WholeNumber(value, min, max)) return *number;
  return node.Error(
      fmt::format("is {}, expected a whole number from {} to {}", value.dump(), min, max));
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
