// Typed reading of a tokenizer's JSON files; every error names the file and the place in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// No real tokenizer has more tokens; a file that claims more is refused before memory is spent on
// it.
inline constexpr int64_t kMaxTokens = 1 << 22;

// A value within a file, for example {value, "/models/x/tokenizer.json: pre_tokenizer"}. The value
// must outlive it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  // INVALID_ARGUMENT "<file>: <place>: <fault>".
  absl::Status Error(std::string_view fault) const;

  // True when the member is there and is not null.
  bool Has(const char* key) const;
  absl::StatusOr<JsonNode> Member(const char* key) const;  // of any type but null
  absl::StatusOr<JsonNode> Element(size_t index) const;    // REQUIRES: value() is an array

  absl::StatusOr<std::string> String(const char* key) const;
  absl::StatusOr<std::string> StringOr(const char* key, std::string_view otherwise) const;
  absl::StatusOr<bool> BoolOr(const char* key, bool otherwise) const;
  absl::StatusOr<int64_t> Int(const char* key, int64_t min, int64_t max) const;
  absl::StatusOr<int64_t> IntOr(const char* key, int64_t otherwise, int64_t min, int64_t max) const;
  absl::StatusOr<JsonNode> Object(const char* key) const;
  absl::StatusOr<JsonNode> Array(const char* key) const;
  // The one character that the member string consists of.
  absl::StatusOr<std::string> Character(const char* key) const;
  // The component's "type".
  absl::StatusOr<std::string> Type() const;
  // An unknown "type": names it and what it is a type of.
  absl::Status UnknownType(std::string_view kind, std::string_view type) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
};

}  // namespace beamline::text
