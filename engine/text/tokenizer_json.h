// Look-ups in a tokenizer.json before a tokenizer is built from it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace beamline::text {

// The string member; empty if there is none.
std::string StringMember(const nlohmann::json& object, const char* key);

// The id of a token in tokenizer.json; null if it has none.
nlohmann::json IdOf(const nlohmann::json& tokenizer, const std::string& content);

// The first character map among the steps of a "normalizer"; null if there is none.
nlohmann::json FindPrecompiled(const nlohmann::json& normalizer);

}  // namespace beamline::text
