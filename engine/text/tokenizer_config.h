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
  // tokenizer_config.json, {} when there is none, with the tokens of special_tokens_map.json in
  // place of its own where that file counts.
  nlohmann::json json = nlohmann::json::object();
  std::string place;                            // tokenizer_config.json's name, for errors
  std::string map_place;                        // special_tokens_map.json's
  std::set<std::string, std::less<>> from_map;  // the keys that are that file's
  std::vector<AddedToken> added_tokens;  // of "added_tokens_decoder", else of added_tokens.json
  std::vector<AddedToken>
      special_tokens;       // the values of unk_token and the like, then others; no ids
  bool gives_types = true;  // to the model, of two texts; set by LoadTokenizer
  bool clean_up_tokenization_spaces = false;
  int64_t model_max_length = 0;  // 0: absent or absurd

  // The token that plays a role, as "eos_token", or `otherwise`.
  std::string Role(const char* role, std::string_view otherwise) const;
  // model_input_names: what the tokenizer gives to its model; empty when the file does not say.
  std::vector<std::string> ModelInputNames() const;
  // The file that says which token plays a role.
  const std::string& PlaceOf(std::string_view role) const;
};

// Files that are not there are like empty ones.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const CheckpointPath& folder);

}  // namespace beamline::text
