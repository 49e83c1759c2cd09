#include "engine/text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "fmt/format.h"

namespace beamline::text {

absl::StatusOr<Vocabulary> Vocabulary::FromJson(const JsonNode& node) {
  const nlohmann::json& json = node.value();
  if (!json.is_object()) {
    return node.Error(fmt::format("is {}, expected an object", json.type_name()));
  }
  int64_t size = 0;
  for (const auto& [token, id] : json.items()) {
    const auto number = WholeNumber(id, 0, kMaxTokens - 1);
    if (!number.has_value()) {
      return node.Error(fmt::format("token \"{}\" has the id {}, expected a whole number below {}",
                                    token, id.dump(), kMaxTokens));
    }
    size = std::max(size, *number + 1);
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.resize(static_cast<size_t>(size));
  vocabulary.ids_.reserve(json.size());
  std::vector<bool> used(static_cast<size_t>(size), false);
  for (const auto& [token, value] : json.items()) {
    const auto id = value.get<size_t>();
    if (used[id]) {
      return node.Error(
          fmt::format("\"{}\" and \"{}\" both have the id {}", token, vocabulary.tokens_[id], id));
    }
    used[id] = true;
    vocabulary.tokens_[id] = token;
    vocabulary.ids_.emplace(vocabulary.tokens_[id], static_cast<int32_t>(id));
  }
  return vocabulary;
}

Vocabulary Vocabulary::FromList(std::vector<std::string> tokens) {
  Vocabulary vocabulary;
  vocabulary.tokens_ = std::move(tokens);
  vocabulary.ids_.reserve(vocabulary.tokens_.size());
  for (size_t id = 0; id < vocabulary.tokens_.size(); ++id) {
    vocabulary.ids_.insert_or_assign(vocabulary.tokens_[id], static_cast<int32_t>(id));
  }
  return vocabulary;
}

}  // namespace beamline::text
