// Typed access to a tokenizer's JSON files; every error names the file and the location in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Maximum number of tokens. No real tokenizer has more; a file that claims more is rejected before
// memory is allocated for it.
inline constexpr int64_t kMaxTokens = 1 << 22;

// A value within a file, for example {value, "/models/x/tokenizer.json: pre_tokenizer"}. The value
// must outlive this object.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  // INVALID_ARGUMENT "<file>: <place>: <fault>".
  absl::Status Error(std::string_view fault) const;

  // True if the member exists and is not null.
  bool Has(const char* key) const;
  absl::StatusOr<JsonNode> Member(const char* key) const;  // any type except null
  absl::StatusOr<JsonNode> Element(size_t index) const;    // REQUIRES: value() is an array

  absl::StatusOr<std::string> String(const char* key) const;
  absl::StatusOr<std::string> StringOr(const char* key, std::string_view otherwise) const;
  absl::StatusOr<bool> BoolOr(const char* key, bool otherwise) const;
  absl::StatusOr<int64_t> Int(const char* key, int64_t min, int64_t max) const;
  absl::StatusOr<int64_t> IntOr(const char* key, int64_t otherwise, int64_t min, int64_t max) const;
  absl::StatusOr<JsonNode> Object(const char* key) const;
  absl::StatusOr<JsonNode> Array(const char* key) const;
  // The member, a string of exactly one character.
  absl::StatusOr<std::string> Character(const char* key) const;
  // The component's "type".
  absl::StatusOr<std::string> Type() const;
  // The error for an unknown "type": names it and the kind of component.
  absl::Status UnknownType(std::string_view kind, std::string_view type) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace beamline::text
