// What tokenizer_config.json, special_tokens_map.json and added_tokens.json add to a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/added_tokens.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

struct TokenizerConfig {
  // tokenizer_config.json, {} if there is none. If special_tokens_map.json takes precedence, its
  // tokens replace those of this file.
  nlohmann::json json = nlohmann::json::object();
  std::string place;                            // name of tokenizer_config.json, for errors
  std::string map_place;                        // name of special_tokens_map.json
  std::set<std::string, std::less<>> from_map;  // keys that come from special_tokens_map.json
  std::vector<AddedToken> added_tokens;  // from "added_tokens_decoder", else added_tokens.json
  std::vector<AddedToken>
      special_tokens;       // the values of unk_token and the like, then others; no ids
  bool gives_types = true;  // whether the model gets type ids; set by LoadTokenizer
  bool clean_up_tokenization_spaces = false;
  int64_t model_max_length = 0;  // 0: absent or unreasonably large

  // The token with this role, such as "eos_token", or `otherwise`.
  std::string Role(const char* role, std::string_view otherwise) const;
  // model_input_names: the inputs that the tokenizer gives to its model; empty if not set.
  std::vector<std::string> ModelInputNames() const;
  // Name of the file that sets the token with this role.
  const std::string& PlaceOf(std::string_view role) const;
};

// Missing files count as empty.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const CheckpointPath& folder);

}  // namespace beamline::text
