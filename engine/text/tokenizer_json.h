// Looking things up in a tokenizer.json before a tokenizer is made of it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace beamline::text {

// The member string; empty where there is none.
std::string StringMember(const nlohmann::json& object, const char* key);

// The id of a token that tokenizer.json has; null where it has none.
nlohmann::json IdOf(const nlohmann::json& tokenizer, const std::string& content);

// The first character map among the steps of a "normalizer"; null when there is none.
nlohmann::json FindPrecompiled(const nlohmann::json& normalizer);

}  // namespace beamline::text
