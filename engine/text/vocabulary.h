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

// From text that lives elsewhere to an id.
using TokenMap = absl::flat_hash_map<std::string_view, int32_t, std::hash<std::string_view>,
                                     std::equal_to<std::string_view>>;

// Immutable after building; movable, not copyable, since the map points into the list.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // An object {"token": id}. INVALID_ARGUMENT for ids below 0, at or above kMaxTokens, or given
  // twice.
  static absl::StatusOr<Vocabulary> FromJson(const JsonNode& node);
  // Ids in order of the list; of equal tokens the last one keeps the id for lookups.
  static Vocabulary FromList(std::vector<std::string> tokens);

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  // How many distinct tokens there are.
  int32_t num_tokens() const { return static_cast<int32_t>(ids_.size()); }

  std::optional<int32_t> Find(std::string_view token) const {
    const auto it = ids_.find(token);
    if (it == ids_.end()) return std::nullopt;
    return it->second;
  }
  // Empty for ids that are not used. REQUIRES: 0 <= id < size().
  const std::string& Token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const TokenMap& ids() const { return ids_; }

 private:
  std::vector<std::string> tokens_;
  TokenMap ids_;
};

}  // namespace beamline::text
