// What tokenizer_config.json and special_tokens_map.json add to a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/added_tokens.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

struct TokenizerConfig {
  nlohmann::json json = nlohmann::json::object();  // tokenizer_config.json; {} when there is none
  std::string place;                               // its file name, for errors
  std::vector<AddedToken> added_tokens;            // of "added_tokens_decoder"
  std::vector<AddedToken>
      special_tokens;  // the values of unk_token and the like, then others; no ids
  bool clean_up_tokenization_spaces = false;
  int64_t model_max_length = 0;  // 0: absent or absurd

  // The token that plays a role, as "eos_token", or `otherwise`.
  std::string Role(const char* role, std::string_view otherwise) const;
};

// Files that are not there are like empty ones.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const std::string& folder);

}  // namespace beamline::text
