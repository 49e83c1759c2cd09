// Tokens and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/text/component_json.h"

namespace beamline::text {

// Maps text stored elsewhere to an id.
using TokenMap = absl::flat_hash_map<std::string_view, int32_t, std::hash<std::string_view>,
                                     std::equal_to<std::string_view>>;

// Immutable after building. Movable but not copyable, because the map points into the list.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Reads an object {"token": id}. INVALID_ARGUMENT for ids below 0, ids >= kMaxTokens and
  // duplicate ids.
  static absl::StatusOr<Vocabulary> FromJson(const JsonNode& node);
  // Ids in the order of the list; of equal tokens, look-ups find the last one.
  static Vocabulary FromList(std::vector<std::string> tokens);

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  // Number of distinct tokens.
  int32_t num_tokens() const { return static_cast<int32_t>(ids_.size()); }

  std::optional<int32_t> Find(std::string_view token) const {
    const auto it = ids_.find(token);
    if (it == ids_.end()) return std::nullopt;
    return it->second;
  }
  // Empty for unused ids. REQUIRES: 0 <= id < size().
  const std::string& Token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const TokenMap& ids() const { return ids_; }

 private:
  std::vector<std::string> tokens_;
  TokenMap ids_;
};

}  // namespace beamline::text
